"""``docs/reliability.md``: the soaks and their results."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sparkstate_tools.soak import report

_HEAD = """# Reliability

<!-- The tables are written by `make soak ARGS=--page` from a run. Do not edit them. -->

[faults.md](faults.md) lists the faults that tests inject on purpose, and their outcomes. This page shows how
a job behaves when it runs for a long time.

`make soak` runs one job on each backend through 20,000 epochs and 2,000 checkpoints. The job's source gets a
new file for every epoch, and its checkpoints and its output go to a real S3 server. On a seeded schedule,
slots and drivers are killed, and the storage refuses requests or is unavailable. A reader compares every
published row with a model, then deletes the file. The state has a fixed number of keys, so no other quantity
should grow either.

A slope is the median of the slopes between all pairs of samples (Theil and Sen), without the first tenth of the run.
The figures of a process are compared only within the second half of the life of that process. RocksDB's block cache
fills up to the managed memory of its slot, so it is subtracted from the slot's memory. The JVM's heap is measured
right after a collection. "Flat" means that the growth over the run is at most a tenth of the median, or below the
noise threshold of the quantity (`tools/src/sparkstate_tools/soak/quantities.py`).

Soaks have found these faults, which are now fixed:

- RocksDB's own logs took 270 MiB after 1,900 epochs, with only 3 MiB of state. They are now bounded.
- Spark's file source keeps a list of every file that it has ever read, rewrites the whole list every ten epochs, and
  kept each copy for ten minutes. This took 150 MiB after 10,000 files, at four epochs a second. Copies are now deleted
  after ten seconds, and a file leaves the list when the source's `maxFileAge` is over
  ([RFC 0026](rfcs/0026-file-sources-forget.md)). The soak sets `maxFileAge` to ten minutes, which is 600 files; Spark's
  default is seven days.
- A published file appeared twice, after 2,588 epochs of a first soak on HashMap. The storage had copied the file, but
  the response was lost. The reader then took the file, and the driver tried the copy again
  ([RFC 0025](rfcs/0025-a-file-appears-once.md)).
- Arrow's own allocator in the driver kept pages for every thread that had ever allocated memory, 4 MiB in 1,000 epochs.
  Arrow in the driver now uses the system's allocator.
- In the driver, glibc had a heap for each of many threads. It placed the metadata of checkpoints in these heaps as
  well, between small blocks that stay. On HashMap, where that metadata is large, the driver grew by 1.4 MiB per 1,000
  epochs in the second half of its life, from 203 to 218 MiB in the longest life. The driver now has two heaps, and
  large blocks are allocated outside them.
- Spark's store for its own web pages filled with the plans of a thousand epochs. It now keeps a hundred.
- After a restore from a checkpoint whose list of files had one compact entry, `19.compact`, Spark wrote the next
  compact entries every twenty epochs instead of every ten. After one more restore, Spark looked for `89.compact`,
  which had never been written, and every start failed there. The list is now adapted to what Spark looks for, and that
  checkpoint has been restored.
- Spark cached a list of the files of every epoch, a kilobyte each and up to 250 MB in all, and never used these
  entries again. Histograms of the driver's heap showed an entry for each epoch of its life. The cache is now off.
- Java kept the name of every socket through which Python had collected a result, so that it could delete the
  file of the socket at exit: 130 bytes for each epoch, without any bound. The names of deleted sockets are now
  removed every thousand epochs.

The table `hashmap` is from a run of 2026-11-25 with all of these fixes, on two processors with little other work. For
six minutes, tests with the lowest priority ran as well. The JVM's live heap is measured without softly referenced
objects, after Python's garbage has been collected, and after Spark has dropped the blocks of dead broadcasts.

The table `rocksdb` is from a run of 2026-11-24, on two processors that other work shared. It is from before the fixes
of the driver's heaps, of the list with `89.compact`, of the cached lists and of the sockets' names. RocksDB has not
been soaked in full since then. The live heap in this table is that of the later part, from epoch 10,992. It still
contains what only Python's garbage refers to, and the blocks of dead broadcasts.

Every quantity in both tables is flat.

Each backend was soaked before, with earlier versions: RocksDB through 20,001 epochs and 2,740 checkpoints, and HashMap
through 55,286 epochs and 3,823 checkpoints in eight parts, then through 20,931 and 21,300 epochs. In these soaks the
live heap grew, or the times grew where other work shared the machine. Every published row was right, and the soaks
found the faults above.
"""


@dataclass(frozen=True)
class Section:
    """One soak's part of the page."""

    name: str
    """Its folder's."""
    text: str
    """The summary, which begins with the backend, and the table."""

    @property
    def backend(self) -> str:
        return self.text.partition(":")[0]


def write(path: Path, folder: Path) -> int:
    """Write the page from the folder of the soaks, and keep what other backends have there; 0.

    The backends are often soaked on different machines and days, so a folder seldom holds all of them.
    """
    stories = {saved.parent.name: report.read(saved.parent) for saved in folder.glob("*/soak.json")}
    soaked = [Section(name, _text(story)) for name, story in stories.items() if story.samples]
    renewed = {section.backend for section in soaked}
    before = sections(path.read_text()) if path.exists() else []
    kept = [section for section in before if section.backend not in renewed]
    path.write_text(render([*soaked, *kept]))
    print(f"wrote {path}; kept as they were: {', '.join(section.name for section in kept) or 'none'}")
    return 0


def render(found: Sequence[Section]) -> str:
    """The page with these sections, by name."""
    ordered = sorted(found, key=lambda section: section.name)
    return _HEAD + "".join(f"\n## {section.name}\n\n{section.text}\n" for section in ordered)


def sections(page: str) -> list[Section]:
    """Those of a written page."""
    pieces = re.split(r"^## (.+)\n", page, flags=re.MULTILINE)[1:]
    return [Section(name, text.strip()) for name, text in zip(pieces[::2], pieces[1::2], strict=True)]


def _text(story: report.Story) -> str:
    return f"{report.summary(story)}\n\n{report.markdown(report.table(report.trends(story)))}"
