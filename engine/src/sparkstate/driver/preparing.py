"""Everything of a job that needs nothing of its state: Spark, the job's code, and what it declares."""

from __future__ import annotations

import contextlib
import sys
from dataclasses import dataclass

from sparkstate import errors
from sparkstate.driver import entry
from sparkstate.driver.backend_trial import BackendTrial
from sparkstate.driver.context import DriverContext
from sparkstate.driver.job_parameters import JobParameters
from sparkstate.driver.snapshot_parts import StoredJob
from sparkstate.manifest import notices
from sparkstate.settings import JobSettings
from sparkstate.sinks.file_sink import FileSink
from sparkstate.spark import graph, planning, session
from sparkstate.spark.session import SparkSession
from sparkstate.storage import naming


@dataclass(frozen=True)
class PreparedJob:
    """A job that has declared itself in a session of Spark."""

    session: SparkSession
    declared: graph.Graph
    python_path: tuple[str, ...]
    """Folders with the job's modules."""
    settings: JobSettings
    """With what the job's code has set."""


def prepare(context: DriverContext, ends: contextlib.ExitStack) -> PreparedJob:
    """Wait for Spark and call the job's function. ``ends`` stops the session."""
    settings = context.settings
    trial = BackendTrial(
        settings.backend, entry.folders(settings.entry), context.work_dir, context.clock, context.say
    )
    ends.callback(trial.end)
    spark = context.spark.session()
    ends.callback(context.spark.stop)
    context.reached("Spark is ready")
    job, python_path = entry.load(settings.entry)
    session.ship(spark, sys.modules.get(job.__module__) if python_path else None, python_path)
    if context.slots_here is not None:
        # After ``ship``: Spark has a daemon for each environment, and another one would load everything again.
        session.begin_workers(spark)
    declared = graph.declare(job, spark, JobParameters(settings.entry.params), beneath=context.code.beneath)
    check_sinks(settings, declared)
    planning.check_files(declared)
    settings, told = context.code.over(settings, declared)
    for path, (value, origin) in told.items():
        context.say(f"spec.{path} is {value}, from {origin}")
    if naming.is_memory(settings.checkpoint.storage):
        context.say(notices.IN_MEMORY)
    trial.require(settings.backend)
    return PreparedJob(spark, declared, python_path, settings)


def stored_job(settings: JobSettings, declared: graph.Graph) -> StoredJob:
    """The part of the declared job that its snapshots record."""
    return StoredJob(
        operators=tuple(declared.operators),
        premises={uid: each.function.state_premises for uid, each in declared.operators.items()},
        key_columns=planning.key_columns(declared),
        sink_paths={n.uid: n.sink.path for n in declared.sinks if isinstance(n.sink, FileSink)},
        backend=settings.backend.type,
        source_readers=declared.source_readers(),
    )


def check_sinks(settings: JobSettings, declared: graph.Graph) -> None:
    """Files of a sink are written where the slots are: a folder has to be one for all pods, and said to be. Nor may it
    depend on the folder in which somebody starts the job. Raises ``SpecInvalid``."""
    for node in declared.sinks:
        if not isinstance(node.sink, FileSink):
            continue
        path = node.sink.path
        if settings.deployment == "cluster" and "://" not in path:
            raise errors.SpecInvalid(
                f"the sink of {node.uid!r} is FileSink({path!r}): with deployment: cluster every executor "
                "has a file system of its own; write s3://bucket/prefix, or file:///path where all pods mount it"
            )
        if "://" not in path and not path.removeprefix("file:").startswith("/"):
            raise errors.SpecInvalid(
                f"the sink of {node.uid!r} is FileSink({path!r}), which would be another folder wherever the job is "
                f"started; give it an absolute path or a URL (here it would be {naming.normalise_url(path)})"
            )
