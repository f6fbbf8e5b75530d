"""Fields of a manifest that only a cluster can use. Most are accepted, with a notice that they have no effect here. The
others are refused, since without them another job would run."""

from __future__ import annotations

from collections.abc import Sequence

from sparkstate_spec.answers import Answer
from sparkstate_spec.given import Leaves, below
from sparkstate_spec.problems import Problem

NO_EFFECT = {
    "image": "the job runs in this Python environment",
    "imagePullPolicy": "no image is pulled",
    "imagePullSecrets": "no image is pulled",
    "serviceAccountName": "there are no pods",
    "slotsPerExecutor": "there are no executors",
    "executor": "there are no executors",
    "driverTemplate": "there are no pods",
    "executorTemplate": "there are no pods",
    "localStorage.sizeLimit": "the working directory is bounded by its file system",
    "localStorage.volumeClaimTemplate": "there are no volumes",
    "upgradeMode": "nobody changes the manifest of a running job",
    "upgradeCheck": "`sparkstate check` asks before an upgrade",
    "deletion": "there is no object to delete; the state stays in storage",
    "ttlSecondsAfterFinished": "there is no object to delete",
    "progressDeadlineSeconds": "there is no object with conditions",
    "trigger.schedule": "the job runs once; start it again by cron or a timer of systemd",
    "restartNonce": "every run is a start of its own",
    "s3.secretRef": "credentials come from the default chain (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, …)",
}


def notices(given: Leaves) -> list[str]:
    """One sentence per field that has no effect without a cluster."""
    found = [
        f"spec.{path} has no effect here: {why}"
        for path, why in NO_EFFECT.items()
        if any(below(name, path) for name in given)
    ]
    if "deployment" in given and given["deployment"].value == "cluster":
        found.append(
            "spec.deployment: cluster has no effect here: Spark runs locally in the driver's process"
        )
    if "state" in given and given["state"].value == "suspended":
        found.append("spec.state: suspended has no effect here: a job that is started here runs")
    return found


IN_MEMORY = (
    "checkpoints lie in the driver's memory (checkpointing.storageType: jobmanager). A slot that is lost comes back "
    "with its state. When the driver's process ends, state and source position are lost: the next start begins from "
    "restoreFrom.uri or empty, reads its input again, and publishes its rows again beside those that are there. Take "
    "savepoints to a folder, or name checkpointing.storage"
)
"""The loss that a job with checkpoints in memory risks."""


def of_storage(given: Leaves) -> list[str]:
    """A sentence about the risk, for a job that has its checkpoints in memory."""
    path = "checkpointing.storageType"
    return [IN_MEMORY] if path in given and given[path].value == "jobmanager" else []


def of_keys(answers: Sequence[Answer]) -> list[str]:
    """One sentence for each thing that Flink's keys are answered with; keys that set a field are not named."""
    by_text: dict[tuple[str, str], list[str]] = {}
    for answer in answers:
        if answer.outcome != "applied" or "(deprecated: " in answer.text:
            said = answer.text if answer.outcome == "applied" else f"{answer.outcome}: {answer.text}"
            by_text.setdefault((answer.spelling, said), []).append(answer.key)
    return [f"spec.{name}: {', '.join(keys)}: {text}" for (name, text), keys in by_text.items()]


def impossible_here(given: Leaves) -> list[Problem]:
    """Fields whose meaning is lost without a cluster, so that ignoring them would run something else."""
    found = []
    if "configMapRef.name" in given:
        found.append(
            Problem(
                "spec.configMapRef", "a ConfigMap needs a cluster; name the script's file with pythonFile"
            )
        )
    if "restoreFrom.snapshotRef.name" in given:
        found.append(
            Problem(
                "spec.restoreFrom.snapshotRef", "a StateSnapshot needs a cluster; name its folder with uri"
            )
        )
    return found
