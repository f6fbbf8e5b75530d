"""``docs/reliability.md``: what was soaked, and what became of it."""

from __future__ import annotations

from pathlib import Path

from soak import report

_HEAD = """# Reliability

<!-- The tables are written by `make soak ARGS=--page` from a run. Do not edit them. -->

What is broken on purpose, and what becomes of it, stands in [faults.md](faults.md). This page shows what a job looks
like after a long life.

`make soak` runs one job on each backend through 20,000 epochs and 2,000 checkpoints. Its source gets a new file for
every epoch, its checkpoints and its output go to a real S3 server, and by a seeded schedule slots and drivers are
killed and the storage refuses requests or is away. A reader compares every published row with a model, then deletes
the file. The state has a fixed number of keys, so everything else should stay as it is.

A slope is the median of the slopes between all pairs of samples (Theil and Sen), without the first tenth of the run;
what belongs to a process is compared within the second half of the life of that process only. RocksDB's block cache
fills up to the managed memory of its slot and is taken off the slot's memory; the JVM's heap is measured right after a
collection. "Flat" means that the growth over the run is
at most a tenth of the median, or below what is noise for the quantity (`scripts/soak/quantities.py`).

Soaks have found, and these are mended:

- RocksDB's own logs: 270 MiB after 1,900 epochs, beside 3 MiB of state. They are bounded now.
- Spark's compacted copies of its list of the files that it has read: 150 MiB after 10,000 files, at four epochs a
  second. Spark keeps each copy for ten minutes, and now for ten seconds. The soak on RocksDB ran its first 12,000
  epochs before that.
"""


def write(path: Path, folder: Path) -> int:
    """Write the page from what lies in the folder of the soaks; 0."""
    parts = [_HEAD]
    for soaked in sorted(folder.glob("*/soak.json")):
        story = report.read(soaked.parent)
        table = report.markdown(report.table(report.trends(story)))
        parts.append(f"\n## {story.backend}\n\n{report.summary(story)}\n\n{table}\n")
    path.write_text("".join(parts))
    print(f"wrote {path}")
    return 0
