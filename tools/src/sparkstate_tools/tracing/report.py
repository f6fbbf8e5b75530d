"""The report of a run, on idle processors.

It has a line for each combination of phases of the driver: its share of the time, the processors that were busy and
idle, and for how long threads that were ready waited for a processor. Two more parts are about the time in which a
processor was idle: the driver's phases, and what the threads waited for. The last part is about the spans of Spark's
JVM, which ``jvm_spans`` finds.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Mapping, Sequence

from sparkstate_tools.tracing import jvm_spans
from sparkstate_tools.tracing.runs import KINDS, Run, ThreadTimes, spans, used
from sparkstate_tools.tracing.sampling import Sample
from sparkstate_tools.tracing.waiting import PLACES


def text(run: Run, cores: int, warm_up: int) -> str:
    """The report: one line for each combination of what the driver does."""
    all_spans = [span for span in spans(run.entries) if span.process == "driver"]
    measured = [span for span in all_spans if span.epoch >= warm_up]
    begin, end = min(span.begin for span in measured), max(span.begin for span in measured)
    kinds = [kind for kind in KINDS if kind in set(run.kinds.values())]
    totals: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
    by_kind: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    idle: dict[str, float] = defaultdict(float)
    for before, after in itertools.pairwise(run.samples):
        if before.t_ms < begin or after.t_ms > end:
            continue
        middle = (before.t_ms + after.t_ms) / 2
        doing = [span for span in all_spans if span.begin <= middle < span.end]
        name = " + ".join(sorted(f"{span.phase}{'' if span.is_front else ' of the last'}" for span in doing))
        name = name or "between two callbacks"
        ran, waited = used(run, before, after)
        line = totals[name]
        line[0] += (after.t_ms - before.t_ms) / 1000
        line[1] += ran
        line[2] += waited
        idle[name] += sum(after.idle_s) - sum(before.idle_s)
        for kind in kinds:
            by_kind[name][kind] += used(run, before, after, kind)[0]
    whole = sum(line[0] for line in totals.values())
    head = f"{'the driver is in':<44}{'time':>7}{'busy':>7}{'idle':>7}{'waiting':>9}" + "".join(
        f"{k:>9}" for k in kinds
    )
    lines = [head]
    for name, (seconds, ran, waited) in sorted(totals.items(), key=lambda item: -item[1][0]):
        busy = ran / seconds
        each = "".join(f"{by_kind[name][kind] / seconds:>9.2f}" for kind in kinds)
        lines.append(
            f"{name:<44}{seconds / whole:>7.0%}{busy:>7.2f}{max(0.0, cores - busy):>7.2f}{waited / seconds:>9.2f}{each}"
        )
    within = [sample for sample in run.samples if begin <= sample.t_ms <= end]
    waited = sum(line[2] for line in totals.values()) / whole
    lines.append(_processors(within, sum(line[1] for line in totals.values()) / whole, waited, cores))
    if len(within) > 1 and all(sample.idle_s for sample in within):
        lines.append(_idle(within[0], within[-1], idle))
        lines += _places(run, within)
    looks = [look for look in run.threads if begin <= look.t_ms <= end]
    if len(looks) > 1:
        lines.append(_by_thread(looks[0], looks[-1]))
    lines += jvm_spans.text(run.jvm, begin, end, len({span.epoch for span in measured}))
    return "\n".join(lines)


def _idle(first: Sample, last: Sample, by_phase: Mapping[str, float]) -> str:
    """For what part of the time each processor had nothing to run, in which phases of the driver that was, and in what
    part of it a thread waited for a disk."""
    seconds = (last.t_ms - first.t_ms) / 1000
    idle = [after - before for before, after in zip(first.idle_s, last.idle_s, strict=True)]
    whole = sum(idle) or 1.0
    phases = ", ".join(
        f"{name} {part / whole:.0%}" for name, part in sorted(by_phase.items(), key=lambda item: -item[1])
    )
    each = ", ".join(f"processor {number} {part / seconds:.0%}" for number, part in enumerate(idle))
    disk = (last.disk_s - first.disk_s) / whole
    return (
        f"idle: {each} of the time; the driver was meanwhile in {phases}; "
        f"a thread waited for a disk in {disk:.0%} of it"
    )


def _places(run: Run, samples: Sequence[Sample]) -> list[str]:
    """Where the threads were while a processor was idle: a table with the mean number of threads at each place, in
    which a look counts by the idle time before it. Threads that did not run lately are not in it."""
    means: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    whole = 0.0
    for before, after in itertools.pairwise(samples):
        idle = sum(after.idle_s) - sum(before.idle_s)
        whole += idle
        for pid, places in after.places.items():
            for (thread, place), number in places.items():
                means[_group(run.kinds[pid], thread)][place] += number * idle
    if not means or not whole:
        return []
    groups = sorted(means, key=lambda name: (KINDS.index(name.split(":")[0]), name))
    return [
        f"{'threads while a processor was idle':<44}" + "".join(f"{place:>16}" for place in PLACES),
        *(
            f"{name:<44}" + "".join(f"{means[name][place] / whole:>16.2f}" for place in PLACES)
            for name in groups
        ),
    ]


def _group(kind: str, thread: str) -> str:
    """Tasks and the query of a JVM, and RocksDB's threads of a slot, apart from what else runs in their processes."""
    if kind == "jvm":
        parts = {"Executor task": "jvm: tasks", "stream exec": "jvm: query", "C2 Compiler": "jvm: compiler"}
        return next((name for prefix, name in parts.items() if thread.startswith(prefix)), "jvm: the rest")
    return f"slots: {thread}" if kind == "slots" and thread.startswith("rocksdb:") else kind


def _by_thread(first: ThreadTimes, last: ThreadTimes) -> str:
    """The slots' processor time by thread. RocksDB flushes in ``rocksdb:high`` and merges in ``rocksdb:low``."""
    seconds = (last.t_ms - first.t_ms) / 1000
    used = {
        name: tuple((after - before) / seconds for after, before in zip(times, earlier, strict=True))
        for name, times in last.run_s.items()
        for earlier in [first.run_s.get(name, (0.0, 0.0))]
    }
    told = [
        f"{name} {user + kernel:.2f} ({kernel:.2f} of it in the kernel)"
        for name, (user, kernel) in sorted(used.items(), key=lambda item: -sum(item[1]))
        if user + kernel >= 0.005
    ]
    return f"processors of the slots, by thread: {', '.join(told)}"


def _processors(samples: Sequence[Sample], busy: float, waited: float, cores: int) -> str:
    """The shares of the processors. Without the time of others, theirs look as if the job left them idle."""
    seconds = (samples[-1].t_ms - samples[0].t_ms) / 1000
    stolen = (samples[-1].stolen_s - samples[0].stolen_s) / seconds
    others = max(0.0, (samples[-1].machine_s - samples[0].machine_s) / seconds - busy)
    return (
        f"\nof {cores} processors {busy:.2f} were busy with the job and {others:.2f} with other processes and the "
        f"kernel, {stolen:.2f} were taken by the host, and {max(0.0, cores - busy - others - stolen):.2f} were idle; "
        f"threads that were ready waited {waited:.2f} s in a second for one of them"
    )
