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
- A published file that came twice, after 2,588 epochs of a first soak on HashMap: the storage had copied it and the
  answer was lost, the reader took the file, and the copy was tried again
  ([RFC 0025](rfcs/0025-a-file-appears-once.md)). The soak on HashMap below ran with the mend in its first form.
- Arrow's own allocator in the driver: it kept pages for every thread that ever asked for some bytes, 4 MiB in 1,000
  epochs. Arrow in the driver uses the system's allocator now; both soaks below ran before that. Over the first 800
  epochs of a job the driver then stayed at 201 MiB, where it had gone from 215 to 235 MiB.

What still grows:

- Local disk: the list of the files that Spark's file source has read, about 105 bytes each. Spark keeps all of them for
  ever, as the position of the source; and it writes the whole list anew every ten epochs, so that at seven epochs a
  second some eight copies lie there at a time. It is in every checkpoint too, packed to 5 bytes for each file.
- The JVM's live heap. A class histogram of the soak on HashMap had 85.5 MiB after some 7,000 epochs and 88.3 MiB after
  some 14,000, in two lives of about the same age; what grew was what names files. Within a life Spark's status store
  fills up to its bounds.
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
