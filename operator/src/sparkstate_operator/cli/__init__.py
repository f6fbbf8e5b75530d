"""``sparkstate-operator``: the command line. The room is the only importer of click."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path
from typing import Any

import click

from sparkstate_operator import errors, hooks, logs
from sparkstate_operator.cli import values
from sparkstate_operator.config import Config
from sparkstate_operator.lease import LeaseSettings
from sparkstate_operator.process import Process


@click.group()
def main() -> None:
    """The Kubernetes operator for stateful Spark jobs."""


@main.command()
@click.option(
    "--namespace", "namespaces", multiple=True, help="Watch this namespace; may be given several times."
)
@click.option("--all-namespaces", is_flag=True, help="Watch all namespaces.")
@click.option(
    "--cluster",
    default="",
    callback=values.cluster,
    envvar="SPARKSTATE_CLUSTER",
    help="The cluster's name in storage.  [default: the name so far; in a new installation the uid of kube-system]",
)
@click.option(
    "--engine-image",
    required=True,
    envvar="SPARKSTATE_ENGINE_IMAGE",
    help="Image `job` of this version, in which the engine's commands run.",
)
@click.option(
    "--driver-role",
    default="ClusterRole/sparkstate-driver",
    show_default=True,
    metavar="KIND/NAME",
    help="Role to which drivers with executors are bound: a ClusterRole, or a Role in each job's namespace.",
)
@click.option(
    "--job-user",
    default="185",
    show_default=True,
    callback=values.identifier,
    help="User of jobs' pods, or none.",
)
@click.option(
    "--job-group",
    default="185",
    show_default=True,
    callback=values.identifier,
    help="Group of jobs' pods, or none.",
)
@click.option(
    "--job-fs-group",
    default="185",
    show_default=True,
    callback=values.identifier,
    help="Group of jobs' volumes, or none.",
)
@click.option(
    "--operator-class",
    default="",
    callback=values.operator_class,
    help="Look only after jobs with this label sparkstate.io/operator-class.  [default: jobs without the label]",
)
@click.option(
    "--defaults-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="YAML with the chart's `defaults`.",
)
@click.option(
    "--key-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File with the secret key from which drivers' tokens derive, at least 16 bytes. Or use --key-secret.",
)
@click.option(
    "--key-secret",
    metavar="NAME",
    help="Secret with that key, in the Lease's namespace; made if it does not exist. Or use --key-file.",
)
@click.option(
    "--lease-namespace",
    required=True,
    envvar="SPARKSTATE_POD_NAMESPACE",
    help="Namespace of the operator's Lease.",
)
@click.option("--lease-name", default="sparkstate-operator", show_default=True)
@click.option(
    "--lease-seconds", default=LeaseSettings.duration_s, show_default=True, type=click.IntRange(5, 300)
)
@click.option(
    "--identity",
    default=lambda: f"{socket.gethostname()}-{os.getpid()}",
    envvar="SPARKSTATE_POD_NAME",
    help="Name of this process in the Lease; a process that comes back under its name leads at once. Default: host and "
    "pid.",
)
@click.option(
    "--listen",
    default=":8081",
    show_default=True,
    metavar="HOST:PORT",
    help="Address of /livez, /readyz and /metrics. Without a host: every address; write IPv6 in brackets.",
)
@click.option(
    "--workers", default=24, show_default=True, type=click.IntRange(1, 64), help="Reconciles at once."
)
@click.option("--resync-seconds", default=Config.resync_s, show_default=True, type=click.FloatRange(1))
@click.option(
    "--progress-seconds",
    default=Config.progress_s,
    show_default=True,
    type=click.FloatRange(0),
    help="Write progress into a job's status this often at most.",
)
@click.option(
    "--kubeconfig", type=click.Path(exists=True, dir_okay=False), help="Default: the pod's ServiceAccount."
)
@click.option("--driver-port", type=int, help="Port of the drivers' REST; for tests.", hidden=True)
@click.option(
    "--log-level", default="info", show_default=True, type=click.Choice(["debug", "info", "warning", "error"])
)
def run(**options: Any) -> None:
    """Run the operator until SIGTERM."""
    if bool(options["namespaces"]) == options["all_namespaces"]:
        raise click.UsageError("give either --namespace (once or more) or --all-namespaces")
    # A late import: `--help` should not wait for kopf to load.
    from sparkstate_operator import run as running

    logs.configure(options["log_level"])
    if bool(options["key_file"]) == bool(options["key_secret"]):
        raise click.UsageError("give either --key-file or --key-secret")
    host, port = values.address(options["listen"])
    config = Config(
        namespaces=tuple(options["namespaces"]),
        cluster=options["cluster"],
        engine_image=options["engine_image"],
        ids={
            field: int(value)
            for field, option in values.IDS.items()
            if (value := options[option]) != values.CLUSTERS_CHOICE
        },
        operator_class=options["operator_class"],
        driver_role=values.driver_role(options["driver_role"]),
        defaults=values.defaults(options["defaults_file"]),
        resync_s=options["resync_seconds"],
        deep_resync_s=options["resync_seconds"] * 10 / 3,
        progress_s=options["progress_seconds"],
        workers=options["workers"],
    )
    started = Process(
        lease=LeaseSettings(
            options["lease_namespace"], options["lease_name"], options["identity"], options["lease_seconds"]
        ),
        key=values.key(options["key_file"]),
        key_secret=options["key_secret"] or "",
        hooks=hooks.from_environment(os.environ),
        kubeconfig=options["kubeconfig"],
        host=host,
        port=port,
        driver_port=options["driver_port"],
    )
    asyncio.run(running.run(config, started))


@main.command()
@click.option(
    "--namespace", "namespaces", multiple=True, help="Only in this namespace; may be given several times."
)
@click.option("--lease-namespace", required=True, envvar="SPARKSTATE_POD_NAMESPACE", help="As for `run`.")
@click.option("--lease-name", default="sparkstate-operator", show_default=True)
@click.option(
    "--lease-seconds", default=LeaseSettings.duration_s, show_default=True, type=click.IntRange(5, 300)
)
@click.option("--operator-class", default="", callback=values.operator_class, help="As for `run`.")
@click.option("--identity", default=socket.gethostname, envvar="SPARKSTATE_POD_NAME")
@click.option("--kubeconfig", type=click.Path(exists=True, dir_okay=False))
def release(**options: Any) -> None:
    """Remove the operator's finalizer from all jobs and snapshots, so that they can be deleted without it.

    Waits until no operator leads. The chart runs this when it is uninstalled.
    """
    from sparkstate_operator import release as letting_go

    logs.configure("info")
    identity = f"{options['identity']}-{os.getpid()}"
    lease = LeaseSettings(
        options["lease_namespace"], options["lease_name"], identity, options["lease_seconds"]
    )
    which = (options["namespaces"], options["kubeconfig"], options["operator_class"])
    try:
        count = asyncio.run(letting_go.release(lease, *which))
    except errors.ApiError as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"{count} objects were let go")
