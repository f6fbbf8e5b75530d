"""The output of a job's exact sinks, from the driver's side: their folders, and publication.

A sink's folder is made once, by the driver, before the first incarnation that has the sink. From then on it is
required: a folder that is missing lies on a volume that is not mounted, and one that is made in its place would take
the output to another disk. Every later checkpoint says that it was made.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from sparkstate import errors, storage
from sparkstate.checkpoint.metadata import CheckpointMetadata, Committable
from sparkstate.checkpoint.restore import RestoredSnapshot
from sparkstate.clock import Clock
from sparkstate.driver.storage_outages import StorageOutages
from sparkstate.log.log import ClaimedLog
from sparkstate.log.records import Tombstone
from sparkstate.sinks import file_sink, publication
from sparkstate.storage import naming

_PUBLISHED_AT_ONCE = 16
"""At 20 ms a request, one file after another took ten seconds for a hundred slots (RFC 0016)."""


class Outputs:
    """Of one lineage. ``paths`` are the folders of the job's sinks by uid; ``insist`` tries at the lineage's own
    storage, as ``StorageOutages.insist`` does. Thread-safe."""

    def __init__(
        self,
        lineage_id: str,
        log: ClaimedLog,
        stores: storage.OpenStores,
        outages: StorageOutages,
        paths: Mapping[str, str],
        insist: Callable[[str, Callable[[], object], Callable[[], bool]], None],
        clock: Clock,
    ) -> None:
        self._lineage_id = lineage_id
        self._log = log
        self._stores = stores
        self._outages = outages
        self._paths = paths
        self._insist = insist
        self._clock = clock

    @property
    def urls(self) -> tuple[str, ...]:
        """The folders of the job's sinks, each once."""
        return tuple(sorted({naming.normalise_url(path) for path in self._paths.values()}))

    def make_folders(self, restored: RestoredSnapshot, given_up: Callable[[], bool]) -> None:
        """Make those that the lineage never had, and wait for the others."""
        # Held open: a store that was dropped and opened again on a bare mount point marked that for the slots.
        self._stores.hold(self.urls)
        before = _made_before(restored)
        for url in self.urls:
            opened = self._stores.get if url in before else self._stores.make
            self._outages.insist(url, "open the folder of a sink", partial(opened, url), given_up)

    def begin(self, incarnation: int, given_up: Callable[[], bool]) -> None:
        """Mark the folders for the slots of that incarnation, which write into no folder without the mark."""
        for url in self.urls:
            doing = "begin in the folder of a sink"
            self._outages.insist(url, doing, partial(self.mark, url, incarnation), given_up)

    def mark(self, url: str, incarnation: int) -> None:
        """One of the folders; again, where somebody has emptied it since."""
        file_sink.begin(self._stores.get(url), self._lineage_id, incarnation)

    def end(self, incarnation: int) -> None:
        """The job has ended in order: its folders hold what is published, and no marks. Files that a fenced driver has
        staged since :meth:`sweep` go too: it may stage one more checkpoint before it knows. Output that a cancelled job
        has committed and not published stays, with the tickets by which the next incarnation publishes it."""
        for url in self.urls:
            with contextlib.suppress(errors.StorageError):  # the next incarnation sweeps
                store = self._stores.get(url)
                file_sink.sweep_staging(store, self._lineage_id, incarnation)
                file_sink.end(store, self._lineage_id, incarnation)
                file_sink.abort_uploads(store, self._lineage_id, incarnation, staged_before=incarnation + 1)

    def publish(self, metadata: CheckpointMetadata, given_up: Callable[[], bool]) -> None:
        """Make the sinks' files of a committed checkpoint visible, and say so in the log, after which nobody looks for
        them again. Idempotent."""
        done, staged = metadata.checkpoint_id, metadata.committables
        if not staged or self._log.state.published >= done:
            return
        doing = f"publish the output of checkpoint {done}"
        restored = metadata.incarnation < self._log.state.incarnation
        self._publish_all([(self._url_of(c), c) for c in staged], doing, given_up, restored=restored)
        record = Tombstone(published=done, reason="published")
        self._insist(
            doing,
            lambda: self._log.append_if(lambda state: None if state.published >= done else record),
            given_up,
        )
        by_url = {url: [c for c in staged if self._url_of(c) == url] for url in self._urls_of(staged)}
        for url, published in by_url.items():
            with contextlib.suppress(errors.StorageError):  # a later sweep takes them
                publication.forget(self._stores.get(url), published)

    def sweep(self, incarnation: int) -> None:
        """Delete what was staged for checkpoints that never committed."""
        for url in self.urls:
            file_sink.sweep_staging(self._stores.get(url), self._lineage_id, incarnation)

    def former(self, restored: RestoredSnapshot) -> tuple[str, ...]:
        """The folders of sinks that have moved or gone since the snapshot: the job does not depend on them."""
        if restored.metadata is None or not restored.same_lineage:
            return ()
        return tuple(sorted({c.url for c in restored.metadata.committables if c.url} - set(self.urls)))

    def _publish_all(
        self,
        staged: list[tuple[str, Committable]],
        doing: str,
        given_up: Callable[[], bool],
        *,
        restored: bool,
    ) -> None:
        """Side by side: every file takes several requests, one after another, and there is a file for each slot and
        sink. All have ended when this returns, or raises the error of the first that failed."""

        def publish(url: str, committable: Committable) -> None:
            def show() -> None:
                now_ms = self._clock.now_ms()
                publication.publish(self._stores.get(url), committable, now_ms, restored=restored)

            self._outages.insist(url, doing, show, given_up)

        with ThreadPoolExecutor(min(_PUBLISHED_AT_ONCE, len(staged)), thread_name_prefix="publish") as pool:
            ended = [pool.submit(publish, *one) for one in staged]
        for each in ended:
            each.result()

    def _url_of(self, committable: Committable) -> str:
        """Where it was meant; of an older version's where the sink of that name is now."""
        url = committable.url or self._paths.get(committable.sink)
        if url is None:
            raise errors.RestoreBlocked(
                f"the restored checkpoint has output for the sink {committable.sink!r}, which the job no longer has; "
                "restore once with the sink, or from an earlier savepoint"
            )
        return url

    def _urls_of(self, staged: Iterable[Committable]) -> set[str]:
        return {self._url_of(committable) for committable in staged}


def _made_before(restored: RestoredSnapshot) -> set[str]:
    """The folders of sinks of which the restored snapshot knows;
    an older version's knows those that it had output for."""
    metadata = restored.metadata
    if metadata is None or not restored.same_lineage:
        return set()
    return {*metadata.sinks, *(staged.url for staged in metadata.committables if staged.url)}
