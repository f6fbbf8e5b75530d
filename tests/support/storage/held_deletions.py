"""A job's storage on a real S3 server, in which whatever is deleted waits until the test lets it pass."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from support.storage import stored_job

from sparkstate import storage
from sparkstate_tools.servers import fault_proxy, s3server
from sparkstate_tools.servers.http_wire import Message

URL = "s3://state/jobs"


class HeldDeletions:
    """Before ``server``. The engine reaches it by the spec, the test itself without waiting."""

    def __init__(self, server: s3server.S3Server) -> None:
        self._passes = threading.Semaphore(0)
        self._opened = functools.partial(storage.open_store, s3=server.settings)
        self.proxy = fault_proxy.FaultProxy(server.port, watch=self._hold)

    def _hold(self, request: Message) -> None:
        if request.words[0] == "POST" and request.words[1].partition("?")[2].startswith("delete"):
            self._passes.acquire(timeout=60)

    def let_pass(self, count: int = 1000) -> None:
        """So many requests more."""
        self._passes.release(count)

    def spec(self, **rest: Any) -> dict[str, Any]:
        """Fields of a job whose state is there."""
        s3 = {"endpoint": self.proxy.endpoint, "region": "us-east-1", "pathStyle": True}
        return {"checkpointing": {"storage": URL, "timeout": "60s"}, "s3": s3, **rest}

    def stored(self, namespace: str) -> stored_job.StoredJob:
        """The lineage of the job ``orders``, as a driver would have made it."""
        return stored_job.StoredJob(
            URL, "orders", 1, cluster="default", namespace=namespace, opened=self._opened
        )

    def is_there(self, url: str) -> bool:
        """Whether anything of a savepoint is."""
        return any(True for _ in self._opened(url).list(""))


@contextlib.contextmanager
def running(patch: pytest.MonkeyPatch) -> Iterator[HeldDeletions]:
    """With its keys in this process's environment; at its end nothing waits any more."""
    with s3server.running() as server:
        for name, value in server.environment.items():
            patch.setenv(name, value)
        found = HeldDeletions(server)
        with found.proxy:
            yield found
            found.let_pass()
