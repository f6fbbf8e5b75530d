"""``make images``: which tool builds, and what it is told."""

from __future__ import annotations

import argparse
from pathlib import Path

import build_images
import images_base
import pytest

from sparkstate_tools import checkout, images


def options(**changes: object) -> argparse.Namespace:
    return argparse.Namespace(**{"platform": None, "push": None, "fresh": False, **changes})


@pytest.fixture
def no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build_images, "secrets", lambda: iter(()))


@pytest.mark.parametrize(("target", "folder"), [("operator", "operator"), ("job", "engine")])
def test_an_image_carries_the_version_of_its_distribution(target: str, folder: str) -> None:
    text = (checkout.ROOT / folder / "pyproject.toml").read_text()
    assert f'version = "{images.image(target).tag.partition(":")[2]}"' in text


def test_docker_writes_an_archive_whose_layers_are_not_compressed(no_secrets: None) -> None:
    words = build_images.buildx(images.image("job"), options())
    assert words[:3] == ["docker", "buildx", "build"]
    assert "--push" not in words
    (output,) = [word for word in words if word.startswith("type=docker,")]
    assert output.endswith("build/images/job.tar,compression=uncompressed")


def test_several_platforms_are_built_by_docker_and_pushed(no_secrets: None) -> None:
    both = "linux/amd64,linux/arm64"
    words = build_images.buildx(images.image("job"), options(platform=both, push="registry.example.org/team"))
    assert words[words.index("--platform") + 1] == both
    assert words[words.index("--tag") + 1].startswith("registry.example.org/team/sparkstate/job:")
    assert "--output" not in words


def test_buildah_leaves_the_host_s_network_alone(no_secrets: None) -> None:
    assert {"--network=host", "--isolation=chroot"} <= set(
        build_images.buildah(images.image("operator"), "base")
    )


def test_the_base_is_named_by_its_digest_or_is_one_of_our_own_making(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    name = images_base.pinned(checkout.ROOT / "Dockerfile")
    answers = {"inspect": False, "pull": False}
    monkeypatch.setattr(images_base, "succeeds", lambda words, _timeout: answers[words[1]])
    monkeypatch.setattr(images_base, "make", lambda _buildah: None)
    assert images_base.ensure(["buildah"], name) == images_base.Base(images_base.MADE, "made by debootstrap")
    answers["pull"] = True
    assert images_base.ensure(["buildah"], name) == images_base.Base(name, "pulled")
    words = build_images.buildah(images.image("job"), name)
    assert words[words.index("--build-arg") + 1] == f"BASE={name}"
    (tmp_path / "Dockerfile").write_text("ARG BASE=debian:trixie-slim\nFROM ${BASE}\n")
    with pytest.raises(SystemExit, match=r"no line `ARG BASE=<image>@sha256:<digest>`"):
        images_base.pinned(tmp_path / "Dockerfile")


@pytest.mark.parametrize(("fresh", "layers"), [(False, "--layers"), (True, "--no-cache")])
def test_layers_are_kept_unless_all_of_it_shall_be_fresh(fresh: bool, layers: str) -> None:
    words = build_images.buildah(images.image("job"), "base", fresh=fresh)
    assert {"--layers", "--no-cache"} & set(words) == {layers}
    assert ("--no-cache" in build_images.buildx(images.image("job"), options(fresh=fresh))) == fresh


def test_pip_s_configuration_and_certificates_are_secrets_of_the_build(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    conf, certificates = tmp_path / "pip.conf", tmp_path / "ca.crt"
    conf.write_text("[global]\n")
    certificates.write_text("-----BEGIN CERTIFICATE-----\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(conf))
    monkeypatch.setenv("PIP_CERT", str(certificates))
    assert dict(build_images.secrets()) == {"pipconf": conf, "ca": certificates}
    words = build_images.buildah(images.image("job"), "base")
    assert words[words.index("--secret") + 1] == f"id=pipconf,src={conf}"


def test_missing_tools_are_named_with_the_command_that_installs_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images.os, "geteuid", lambda: 0)
    monkeypatch.setattr(
        images.shutil, "which", lambda name: "/usr/bin/apt-get" if name == "apt-get" else None
    )
    monkeypatch.setattr(images, "docker_answers", lambda: False)
    monkeypatch.setattr(images, "PACKAGES", {"/nowhere/buildah": "buildah", "/nowhere/base": "debootstrap"})
    with pytest.raises(
        images.CannotBuild, match=r"apt-get install -y --no-install-recommends buildah debootstrap"
    ):
        images.require_builder(install=False)


def test_without_root_and_without_docker_the_way_out_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images.os, "geteuid", lambda: 1000)
    monkeypatch.setattr(images, "docker_answers", lambda: False)
    with pytest.raises(images.CannotBuild, match="as root, or start Docker"):
        images.require_builder(install=True)


def test_a_slim_base_keeps_licences_and_loses_translations(tmp_path: Path) -> None:
    for name in (
        "usr/share/doc/bash/copyright",
        "usr/share/doc/bash/changelog.gz",
        "usr/share/locale/de/x.mo",
        "var/cache/apt/archives/a.deb",
        "etc/dpkg/dpkg.cfg.d/none",
        "etc/apt/sources.list",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    images_base.slim(tmp_path)
    assert (tmp_path / "usr/share/doc/bash/copyright").is_file()
    assert not (tmp_path / "usr/share/doc/bash/changelog.gz").exists()
    assert not (tmp_path / "usr/share/locale").exists()
    assert not (tmp_path / "var/cache/apt/archives/a.deb").exists()
    assert "trixie-security" in (tmp_path / "etc/apt/sources.list").read_text()
