"""The rules on state: its backend, checkpoints, savepoints, restarts, what is restored, and storage."""

from __future__ import annotations

from sparkstate_spec import units
from sparkstate_spec.fields import REFUSED_ON_HEAP, STRATEGY_SECTIONS
from sparkstate_spec.flink_tables import OPTION_KEYS
from sparkstate_spec.rules.rule import Rule, View, inline_keys, location, not_in_this_version, positive, shown

LARGEST_INLINE = "1Mi"
LARGEST_IN_MEMORY = "64Mi"
"""All states of a slot together travel in one frame, which takes 1 GiB."""
LEAST_FENCE = "3s"


def _backend(view: View) -> str | None:
    """The type that the spec names; a class says it too."""
    named: str | None = view["spec.stateBackend.type"]
    return "custom" if named is None and view["spec.stateBackend.class"] is not None else named


def _only_rocksdb(field: str) -> Rule:
    shared = field == "options"  # a backend of the user's own has options too
    return Rule(
        f"{field} for rocksdb",
        f"spec.stateBackend.{field}",
        "applies only to type rocksdb" + (" or custom" if shared else ""),
        lambda view: (
            view[f"spec.stateBackend.{field}"] is not None
            and _backend(view) in (("hashmap",) if shared else ("hashmap", "custom"))
        ),
    )


def _foreign_options(view: View) -> list[str]:
    given = view.entries("spec.stateBackend.options")
    return (
        []
        if view["spec.stateBackend.optionsFactory"] or _backend(view) == "custom"
        else [name for name in given if name not in OPTION_KEYS]
    )


BACKEND = (
    Rule(
        "custom with a class",
        "spec.stateBackend.class",
        "type custom needs the class of your backend, as module:Class",
        lambda view: view["spec.stateBackend.type"] == "custom" and view["spec.stateBackend.class"] is None,
    ),
    Rule(
        "class for custom",
        "spec.stateBackend.class",
        "applies only to type custom",
        lambda view: _backend(view) != "custom" and view["spec.stateBackend.class"] is not None,
        shown("spec.stateBackend.class"),
        beside="spec.stateBackend.type",
    ),
    not_in_this_version("spec.stateBackend.type", "external", "external state backends are"),
    not_in_this_version("spec.stateBackend.changelog.enabled", True, "the changelog state backend is"),
    *(_only_rocksdb(field) for field in REFUSED_ON_HEAP),
    Rule(
        "heap timers on the heap",
        "spec.stateBackend.timerService",
        "with type hashmap, timers are always on the heap; leave it out",
        lambda view: (
            view["spec.stateBackend.timerService"] == "rocksdb"
            and view["spec.stateBackend.type"] == "hashmap"
        ),
    ),
    Rule(
        "timers of a class",
        "spec.stateBackend.timerService",
        "with type custom, timers are where your backend keeps them; leave it out",
        lambda view: view["spec.stateBackend.timerService"] is not None and _backend(view) == "custom",
    ),
    Rule(
        "known options",
        "spec.stateBackend.options",
        "an option is not one of Flink's configurable RocksDB keys (state.backend.rocksdb.…); keys of your own need an "
        "optionsFactory, or the class of a backend of your own",
        lambda view: bool(_foreign_options(view)),
        lambda view: ", ".join(_foreign_options(view)),
    ),
    Rule(
        "ratios fit",
        "spec.stateBackend.highPrioPoolRatio",
        "writeBufferRatio and highPrioPoolRatio together must be less than 1",
        lambda view: (
            view.count("spec.stateBackend.writeBufferRatio", "spec.stateBackend.highPrioPoolRatio") == 2
            and view["spec.stateBackend.writeBufferRatio"] + view["spec.stateBackend.highPrioPoolRatio"] >= 1
        ),
        beside="spec.stateBackend.writeBufferRatio",
    ),
)


def _section(section: str, strategy: str) -> Rule:
    return Rule(
        f"{section} with its strategy",
        f"spec.restart.{section}",
        f"needs strategy: {strategy}",
        lambda view: (
            view[f"spec.restart.{section}"] is not None and view["spec.restart.strategy"] != strategy
        ),
    )


def _backoffs_disagree(view: View) -> bool:
    first, longest = (
        view[f"spec.restart.exponentialDelay.{name}"] for name in ("initialBackoff", "maxBackoff")
    )
    return bool(first and longest) and units.duration_ms(first) > units.duration_ms(longest)


PROGRESS = (
    not_in_this_version("spec.checkpointing.mode", "changelog", "checkpointing mode changelog is"),
    *positive(
        "spec.checkpointing.interval",
        "spec.checkpointing.timeout",
        "spec.checkpointing.maxTimeWithoutCheckpoint",
    ),
    *location("spec.checkpointing.storage"),
    Rule(
        "one place of checkpoints",
        "spec.checkpointing.storageType",
        "with jobmanager, checkpoints lie in the driver's memory; leave checkpointing.storage out, or the type",
        lambda view: (
            view["spec.checkpointing.storageType"] == "jobmanager"
            and view["spec.checkpointing.storage"] is not None
        ),
    ),
    Rule(
        "largest state in memory",
        "spec.checkpointing.maxStateSize",
        f"must be more than 0 and at most {LARGEST_IN_MEMORY}",
        lambda view: (
            not 0
            < units.quantity_bytes(view["spec.checkpointing.maxStateSize"] or "1")
            <= units.quantity_bytes(LARGEST_IN_MEMORY)
        ),
        shown("spec.checkpointing.maxStateSize"),
    ),
    Rule(
        "inline threshold",
        "spec.checkpointing.inlineThreshold",
        f"must be at most {LARGEST_INLINE}",
        lambda view: (
            units.quantity_bytes(view["spec.checkpointing.inlineThreshold"] or "0")
            > units.quantity_bytes(LARGEST_INLINE)
        ),
        shown("spec.checkpointing.inlineThreshold"),
    ),
    Rule(
        "write buffer",
        "spec.checkpointing.writeBufferSize",
        "must be more than 0",
        lambda view: units.quantity_bytes(view["spec.checkpointing.writeBufferSize"] or "1") < 1,
    ),
    Rule(
        "held output",
        "spec.checkpointing.maxHeldOutput",
        "must be more than 0",
        lambda view: units.quantity_bytes(view["spec.checkpointing.maxHeldOutput"] or "1") < 1,
    ),
    Rule(
        "storage for a cluster",
        "spec.checkpointing.storage",
        "with deployment cluster, write a URL that every pod can reach instead of a plain path",
        lambda view: (
            view["spec.deployment"] == "cluster"
            and "://" not in (view["spec.checkpointing.storage"] or "://")
        ),
        shown("spec.checkpointing.storage"),
    ),
    *location("spec.savepoints.storage"),
    *positive("spec.savepoints.interval", "spec.savepoints.maxAge"),
    Rule(
        "one clock for savepoints",
        "spec.savepoints",
        "interval and schedule exclude one another; keep one",
        lambda view: view.count("spec.savepoints.interval", "spec.savepoints.schedule") > 1,
    ),
    Rule(
        "one trigger",
        "spec.trigger",
        "processingTime and availableNow exclude one another; keep one",
        lambda view: (
            view["spec.trigger.processingTime"] is not None and view["spec.trigger.availableNow"] is True
        ),
    ),
    Rule(
        "schedule of runs",
        "spec.trigger",
        "schedule is for jobs that end by themselves; add availableNow: true, or leave schedule out",
        lambda view: (
            view["spec.trigger.schedule"] is not None and view["spec.trigger.availableNow"] is not True
        ),
    ),
    *(_section(section, strategy) for strategy, section in STRATEGY_SECTIONS.items()),
    *positive("spec.restart.exponentialDelay.initialBackoff", "spec.restart.exponentialDelay.maxBackoff"),
    Rule(
        "backoffs agree",
        "spec.restart.exponentialDelay.initialBackoff",
        "initialBackoff is longer than maxBackoff; lower the one or raise the other",
        _backoffs_disagree,
        beside="spec.restart.exponentialDelay.maxBackoff",
    ),
    *positive("spec.restart.failureRate.failureRateInterval"),
    Rule(
        "fence timeout",
        "spec.fenceTimeout",
        f"must be at least {LEAST_FENCE}: the driver reads the log three times within it",
        lambda view: (
            units.duration_ms(view["spec.fenceTimeout"] or LEAST_FENCE) < units.duration_ms(LEAST_FENCE)
        ),
        shown("spec.fenceTimeout"),
    ),
    *positive("spec.sinkTimeout", "spec.deletion.deadline"),
)

RESTORE = (
    Rule(
        "one thing to restore",
        "spec.restoreFrom",
        "give exactly one of snapshotRef, latest and uri, to say what to restore",
        lambda view: (
            view["spec.restoreFrom"] is not None
            and view.count(*(f"spec.restoreFrom.{n}" for n in ("snapshotRef", "latest", "uri", "beforeTime")))
            != 1
        ),
    ),
    not_in_this_version("spec.restoreFrom.beforeTime", None, "restoring the state before a time is"),
    *location("spec.restoreFrom.uri"),
    Rule(
        "empty or restored",
        "spec.startEmpty",
        "startEmpty and restoreFrom exclude one another; keep one",
        lambda view: view["spec.startEmpty"] is True and view["spec.restoreFrom"] is not None,
    ),
)


S3 = inline_keys("spec.s3")
