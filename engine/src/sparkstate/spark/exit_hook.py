"""The JVM's list of files to delete when it exits, kept from growing with the age of a job.

Spark makes a socket for each result that Python collects, so for each epoch, and asks Java to delete its file at the
exit (``SocketAuthServer``, with ``spark.python.unix.domain.socket.enabled``). It deletes the file itself when the
result has been fetched, but Java forgets no name: 130 bytes of the heap an epoch, 1.3 GB after ten million.
"""

from __future__ import annotations

from typing import Any, Final

from py4j.protocol import Py4JError

EVERY: Final = 1000
"""Epochs from one :func:`forget_sockets` to the next."""
_SOCKET: Final = r".*/\.[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\.sock"
"""Paths of Spark's sockets, as a pattern of Java's."""


def forget_sockets(jvm: Any) -> None:
    """Take the names of Spark's sockets out. A Java whose list cannot be reached keeps them."""
    try:
        files = _files(jvm)
        old = files.get(None)
        if old is None:  # the JVM is ending
            return
        # Java adds names under a lock that cannot be taken from here, so the list is replaced, which is atomic, and
        # only then changed. Other names come back by Java's own way.
        files.set(None, jvm.java.util.LinkedHashSet())
        old.removeIf(jvm.java.util.regex.Pattern.compile(_SOCKET).asMatchPredicate())
        for name in old:
            jvm.java.io.File(name).deleteOnExit()
    except Py4JError:
        return


def names(jvm: Any) -> list[str]:
    """All paths that Java would delete."""
    return [str(name) for name in _files(jvm).get(None)]


def _files(jvm: Any) -> Any:
    # Spark opens java.io to reflection (JavaModuleOptions).
    files = jvm.java.lang.Class.forName("java.io.DeleteOnExitHook").getDeclaredField("files")
    files.setAccessible(True)
    return files
