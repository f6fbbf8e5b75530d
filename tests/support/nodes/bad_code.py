"""Example 01 with a user function that harms: what it does beside its work changes nothing of the output.

Each harm is done once in a job's life, by whoever renames the file ``NAME`` in the job's folder first; a test makes
that file when it wants it to happen.
"""

from __future__ import annotations

from support.nodes.flights import CODE, FlightsJob
from support.nodes.node_job import MOUNT

BEGIN = "        scheduled = ctx.timestamp()\n"
HEAD = f'''

def once(name: str) -> bool:
    import os

    try:
        os.rename(f"{MOUNT}/{{name}}", f"{MOUNT}/{{name}}.done")
    except FileNotFoundError:
        return False
    return True


'''
LEAK = """\
        held = []
        while held or once("leak"):
            held.append(b"x" * (32 << 20))
"""
FILL = """\
        if once("fill"):
            import os, time

            with open(f"{os.environ['HOME']}/filling", "wb") as file:
                for _ in range(40):
                    file.write(bytes(16 << 20))
            time.sleep(300)
"""
PAD = """\
        if scheduled < 1_357_056_000_000 and self.padding.value() is None:  # 2013-01-01, 16:00 UTC
            import os

            self.padding.update(os.urandom(200 << 10))
"""
DECLARE = "        self.rotation = ctx.get_state("
PADDING = (
    '        self.padding = ctx.get_state(ValueStateDescriptor("padding", Types.PICKLED_BYTE_ARRAY()))\n'
)


def leaking() -> str:
    """Takes memory without end when the file ``leak`` appears."""
    return _with(LEAK)


def filling() -> str:
    """Writes 640 MiB into the working volume when the file ``fill`` appears, and then does nothing for minutes."""
    return _with(FILL)


def padded() -> str:
    """Keeps 25 MiB in each of two slots, all of the first file of flights, in bytes that do not compress."""
    return _with(PAD).replace(DECLARE, PADDING + DECLARE)


def let(job: FlightsJob, name: str) -> None:
    """The harm of that name may be done now."""
    (job.folder / name).touch()


def done(job: FlightsJob, name: str) -> bool:
    """Whether it was begun."""
    return (job.folder / f"{name}.done").exists()


def _with(harm: str) -> str:
    text = CODE.read_text()
    assert BEGIN in text
    assert DECLARE in text
    before, at, after = text.partition("class Rotations(")
    return f"{before.rstrip()}{HEAD}{at}{after.replace(BEGIN, BEGIN + harm)}"
