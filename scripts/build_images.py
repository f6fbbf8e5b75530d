"""``make images``: builds the images of the Dockerfile and writes them to ``build/images/``.

Docker's buildx where a Docker daemon answers, else buildah as root. The archives are in Docker's format, their layers
not compressed: they are for the machine's own clusters, and unpacking costs more than reading them. The tags are
``sparkstate/operator:<version>`` and ``sparkstate/job:<version>``.

    make images ARGS="--target job --platform linux/amd64,linux/arm64 --push registry.example.org/team"
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import bootstrap
import images_base
import images_check
import sbom

from sparkstate_tools import images
from sparkstate_tools.checkout import ROOT

AIMS_MB = {"operator": 200, "job": 1200}
YEAR_2000 = 946_684_800
CERTIFICATES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt")


def main(arguments: Sequence[str] | None = None) -> int:
    """Build; returns the exit code."""
    options = _options(arguments)
    images.OUTPUT.mkdir(parents=True, exist_ok=True)
    try:
        builder = images.require_builder(options.builder, install=options.install_tools)
    except images.CannotBuild as error:
        raise SystemExit(str(error)) from error
    with context(options.ref) as folder:
        base = images_base.pinned(folder / "Dockerfile")
        if builder == "buildah":
            found = images_base.ensure(["buildah"], base)
            base = found.name
            images.say(f"base image: {base}, {found.origin}")
        return max(
            _build(target, builder, base, folder, options) for target in options.target or images.TARGETS
        )


def _build(target: str, builder: str, base: str, folder: Path, options: argparse.Namespace) -> int:
    started = time.monotonic()
    one = images.image(target)
    command = buildx(one, options) if builder == "docker" else buildah(one, base, fresh=options.fresh)
    environment = {**os.environ, "DOCKER_BUILDKIT": "1"}
    failed = subprocess.run(command, cwd=folder, check=False, env=environment).returncode
    if not failed:
        report(one, builder, time.monotonic() - started, push=options.push)
        if options.check and builder == "buildah":
            failed = int(not images_check.check(target, one.tag) or sbom.main(["--check", str(one.archive)]))
    if failed:
        images.say(f"{target} failed")
    return int(bool(failed))


@contextmanager
def context(ref: str | None) -> Iterator[Path]:
    """The folder to build from: the checkout as it is, or what a commit holds."""
    if ref is None:
        yield ROOT
        return
    with tempfile.TemporaryDirectory(prefix="sparkstate-images-") as folder:
        archive = Path(folder) / "commit.tar"
        subprocess.run(["git", "archive", "--output", str(archive), ref], cwd=ROOT, check=True)
        subprocess.run(["tar", "-xf", str(archive), "-C", folder], check=True)
        archive.unlink()
        keep_times(Path(folder))
        yield Path(folder)


def keep_times(folder: Path) -> None:
    """Files that the checkout has alike get its times, all others one time: builders recognise layers by them."""
    for path in (each for each in folder.rglob("*") if each.is_file()):
        own = ROOT / path.relative_to(folder)
        if own.is_file() and own.read_bytes() == path.read_bytes():
            shutil.copystat(own, path)
        else:
            os.utime(path, (YEAR_2000, YEAR_2000))


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Build the images of the Dockerfile.")
    parser.add_argument("--target", action="append", choices=sorted(images.TARGETS))
    parser.add_argument("--builder", choices=("docker", "buildah"), help="default: Docker where it answers")
    parser.add_argument("--platform", help="Docker only: e.g. linux/amd64,linux/arm64 (then with --push)")
    parser.add_argument("--push", metavar="REGISTRY/FOLDER", help="push there instead of writing archives")
    parser.add_argument("--ref", metavar="COMMIT", help="build this commit; default: the checkout as it is")
    parser.add_argument(
        "--fresh", action="store_true", help="build every layer anew, with Debian's newest packages"
    )
    parser.add_argument("--check", action="store_true", help="run what is in them, with a read-only root")
    parser.add_argument(
        "--install-tools",
        action="store_true",
        default=os.environ.get("SPARKSTATE_INSTALL_TOOLS") == "1",
        help="install missing tools by apt-get (as root)",
    )
    return parser.parse_args(arguments)


def secrets() -> Iterator[tuple[str, Path]]:
    """What lets pip reach its index as this host does: its configuration and certificates, where there are any."""
    settings = bootstrap.pip_settings()
    places = [os.environ.get("PIP_CONFIG_FILE"), "~/.config/pip/pip.conf", "~/.pip/pip.conf", "/etc/pip.conf"]
    for place in places:
        if place and (path := Path(place).expanduser()).is_file():
            yield "pipconf", path
            break
    for place in (settings.get("cert"), *CERTIFICATES):
        if place and Path(place).is_file():
            yield "ca", Path(place)
            break


def buildx(one: images.Image, options: argparse.Namespace) -> list[str]:
    """The command for Docker."""
    tag = f"{options.push}/{one.tag}" if options.push else one.tag
    output = (
        ["--push"]
        if options.push
        else ["--output", f"type=docker,dest={one.archive},compression=uncompressed"]
    )
    platform = ["--platform", options.platform] if options.platform else []
    return [
        "docker",
        "buildx",
        "build",
        *platform,
        *(["--no-cache"] if options.fresh else []),
        "--target",
        one.target,
        "--tag",
        tag,
        *_secrets(),
        *output,
        ".",
    ]


def buildah(one: images.Image, base: str, *, fresh: bool = False) -> list[str]:
    """The command for buildah, on the image ``base``. The host's network: a bridge would change the host's firewall and
    routes."""
    options = ["--isolation=chroot", "--network=host", "--pull-never", "--format=docker"]
    options += ["--no-cache" if fresh else "--layers", "--build-arg", f"BASE={base}"]
    return ["buildah", "build", *options, "--target", one.target, "--tag", one.tag, *_secrets(), "."]


def _secrets() -> list[str]:
    return [word for name, path in secrets() for word in ("--secret", f"id={name},src={path}")]


def report(one: images.Image, builder: str, seconds: float, *, push: str | None) -> None:
    """Write buildah's archive, and say how large the image is."""
    if push is not None:
        if builder == "buildah":
            target = f"docker://{push}/{one.tag}"
            subprocess.run(["buildah", "push", "--quiet", one.tag, target], check=True)
        images.say(f"{one.tag}: pushed after {seconds:.0f} s")
        return
    if builder == "buildah":
        one.archive.unlink(missing_ok=True)
        subprocess.run(
            ["buildah", "push", "--quiet", f"localhost/{one.tag}", f"docker-archive:{one.archive}:{one.tag}"],
            check=True,
        )
    sbom.write(one.archive)
    size = one.archive.stat().st_size / 1e6
    (images.OUTPUT / f"{one.target}.json").write_text(
        json.dumps({"tag": one.tag, "archive": one.archive.name, "bytes": one.archive.stat().st_size})
    )
    aim = AIMS_MB[one.target]
    images.say(f"{one.tag}: {size:.0f} MB (aim {aim}), {seconds:.0f} s, {one.archive.relative_to(ROOT)}")


if __name__ == "__main__":
    sys.exit(main())
