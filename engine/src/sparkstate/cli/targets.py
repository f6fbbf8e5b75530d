"""Which job a command means: by its manifest, by the address of its endpoint, or by its storage."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from sparkstate import errors, manifest, settings
from sparkstate.cli import manifests
from sparkstate.control import client as control
from sparkstate.log import lineage
from sparkstate.runner import workdir
from sparkstate.storage import naming
from sparkstate.stored.place import Place

TOKEN_VARIABLE = "SPARKSTATE_TOKEN"
NO_CLUSTER = "local"
"""The cluster of jobs that no operator runs."""
Command = TypeVar("Command", bound=Callable[..., Any])


class NotRunning(errors.SparkstateError):
    """No driver of that job runs here. The message says how to start it and how to read its storage."""


@dataclass(frozen=True, kw_only=True)
class RunningJob:
    """How to reach a running job."""

    manifest_path: Path | None
    work_dir: Path | None
    address: str | None
    token_file: Path | None
    older_image: bool = False
    """The driver takes the token alone. It answered keys derived from it with 401, and a message that misled."""

    def connect(self) -> control.ControlClient:
        """A client. Raises ``SpecInvalid`` if the options name no job, ``NotRunning`` if it is not there."""
        if self.address is not None:
            return control.ControlClient(self.address, self._given_token(), older_image=self.older_image)
        folder = self._folder()
        driver = folder.driver()
        if driver is None:
            raise NotRunning(
                f"no driver runs in {folder.root}: start it with `sparkstate run`, or read its storage with "
                "`sparkstate restore-info`; a job elsewhere is reached with --address"
            )
        token = self._token() or folder.read_token() or ""
        return control.ControlClient(driver.address, token, older_image=self.older_image)

    def _folder(self) -> workdir.WorkDir:
        if self.work_dir is not None:
            return workdir.WorkDir(self.work_dir)
        if self.manifest_path is None:
            raise errors.SpecInvalid(
                "no job was named: give the path of its manifest (job.yaml), its --work-dir, or its --address"
            )
        name = manifest.load(self.manifest_path).name
        return workdir.WorkDir(workdir.default_root(self.manifest_path, name))

    def _given_token(self) -> str:
        token = self._token()
        if token is None:
            raise errors.SpecInvalid(
                f"--address {self.address} needs the job's token: give --token-file, or set {TOKEN_VARIABLE}"
            )
        return token

    def _token(self) -> str | None:
        if self.token_file is not None:
            try:
                return self.token_file.read_text("ascii").strip()
            except UnicodeDecodeError as error:
                raise errors.SpecInvalid(
                    f"--token-file {self.token_file} does not hold a token, which is ASCII text"
                ) from error
            except OSError as error:
                raise errors.SpecInvalid(
                    f"--token-file {self.token_file} cannot be read: {error.strerror}"
                ) from error
        given = os.environ.get(TOKEN_VARIABLE)
        return None if given is None else given.strip()  # a Secret's value may end with a line feed


def running_options(command: Command) -> Command:
    """``[JOB.YAML] --work-dir --address --token-file --older-image``: the parameters of :class:`RunningJob`."""
    kind = click.Path(exists=True, dir_okay=False, path_type=Path)
    decorated = click.option(
        "--older-image",
        is_flag=True,
        help="The job's image is older and knows only the token: send the token as it is.",
    )(command)
    decorated = click.option(
        "--token-file",
        type=kind,
        help=f"File with the job's token, or a key derived from it.  [default: ${TOKEN_VARIABLE}]",
    )(decorated)
    decorated = click.option("--address", metavar="URL", help="The control endpoint, instead of a manifest.")(
        decorated
    )
    decorated = manifests.work_dir_option(decorated)
    return click.argument("manifest_path", metavar="[JOB.YAML]", required=False, type=kind)(decorated)


def stored(target: str, overrides: tuple[str, ...], s3: settings.S3Settings, job: str | None) -> Place:
    """The place that ``target`` means: the path of a manifest, else a URL.

    ``job`` is ``name``, ``namespace/name`` or ``cluster/namespace/name``; beside a manifest, which names its job, it is
    refused. The environment names the cluster of a manifest's job, as in a driver's pod.
    """
    if Path(target).is_file() and target.endswith((".yaml", ".yml", ".json")):
        cluster = os.environ.get(settings.CLUSTER_VARIABLE) or NO_CLUSTER
        loaded = manifest.load(Path(target), overrides)
        if job is not None:
            raise click.UsageError(
                f"--job {job} has no use beside {target}, the manifest of the job {loaded.name}; leave it out, "
                "or give the URL of the checkpoint storage in place of the manifest"
            )
        resolved = manifest.resolve(loaded, cluster=cluster, in_cluster=cluster != NO_CLUSTER).settings
        if naming.is_memory(resolved.checkpoint.storage):
            raise errors.SpecInvalid(
                f"{target} keeps its checkpoints in its driver's memory (checkpointing.storageType: jobmanager), where "
                "no other process sees them; ask the running job (sparkstate status), or name the URL of a savepoint"
            )
        return Place(url=resolved.checkpoint.storage, s3=resolved.s3, job=lineage.JobName.of(resolved))
    return Place(url=target, s3=s3, job=_job_name(job) if job else None)


def _job_name(text: str) -> lineage.JobName:
    parts = text.split("/")
    if len(parts) > 3 or not all(parts):
        raise errors.SpecInvalid(
            f"--job {text!r} does not name a job: write name, namespace/name or cluster/namespace/name"
        )
    cluster, namespace, name = [NO_CLUSTER, "default"][: 3 - len(parts)] + parts
    return lineage.JobName(cluster=cluster, namespace=namespace, name=name)


def s3_options(command: Command) -> Command:
    """``--s3-endpoint --s3-region --s3-path-style`` and ``--job``, for targets that are URLs."""
    decorated = click.option(
        "--s3-endpoint",
        metavar="URL",
        envvar="SPARKSTATE_S3_ENDPOINT",
        help="S3-compatible server, for s3:// URLs.",
    )(command)
    decorated = click.option(
        "--s3-region", metavar="REGION", envvar="SPARKSTATE_S3_REGION", help="Region, for s3:// URLs."
    )(decorated)
    decorated = click.option(
        "--s3-path-style",
        is_flag=True,
        envvar="SPARKSTATE_S3_PATH_STYLE",
        help="Bucket in the path, not in the host name.",
    )(decorated)
    return click.option(
        "--job",
        metavar="[[CLUSTER/]NAMESPACE/]NAME",
        help="Which job, if the storage at a URL holds several.",
    )(decorated)
