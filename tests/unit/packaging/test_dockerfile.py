"""Facts about the Dockerfile that a cluster relies on; what is inside the images is looked at in tests/e2e."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
TARGETS = ("operator", "job")


def instructions() -> list[tuple[str, str, str]]:
    """(stage, instruction, arguments), comments left out and continued lines joined."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE)
    found, stage = [], ""
    for line in re.sub(r" *\\\n\s*", " ", text).splitlines():
        if not line.strip():
            continue
        name, _, arguments = line.strip().partition(" ")
        if name == "ARG" and not stage:
            continue  # before the first stage
        if name == "FROM":
            stage = arguments.split(" AS ")[1]
        found.append((stage, name, arguments))
    return found


def lineage(target: str) -> list[str]:
    """The stages that a target is made of, itself first: not those that it only copies from."""
    parents = {stage: args.split(" AS ")[0] for stage, name, args in instructions() if name == "FROM"}
    chain = [target]
    while parents.get(chain[-1]) in parents:
        chain.append(parents[chain[-1]])
    return chain


def of(target: str, name: str) -> list[str]:
    """The arguments of one instruction over a target's stages, the last stage first."""
    return [a for stage in lineage(target) for s, n, a in instructions() if s == stage and n == name]


def test_the_only_image_from_outside_is_debian_by_its_digest() -> None:
    stages = {stage for stage, _, _ in instructions()}
    bases = {args.split(" AS ")[0] for _, name, args in instructions() if name == "FROM"}
    assert bases - stages == {"${BASE}"}
    text = (ROOT / "Dockerfile").read_text()
    assert re.findall(r"^ARG BASE=(.*)@sha256:[0-9a-f]{64}$", text, re.MULTILINE) == [
        "docker.io/library/debian"
    ]


def test_what_debian_has_mended_since_its_base_was_made_is_installed() -> None:
    (first,) = [run for run in of("runtime", "RUN") if "apt-get" in run]
    assert "apt-get upgrade -y" in first


@pytest.mark.parametrize("target", TARGETS)
def test_an_image_runs_as_a_user_with_a_passwd_entry_and_a_home(target: str) -> None:
    assert of(target, "USER") == ["185:185"]
    (adding,) = [run for run in of(target, "RUN") if "useradd" in run]
    assert "--uid 185" in adding
    assert "--gid 185" in adding
    assert "--home-dir /var/lib/sparkstate" in adding


@pytest.mark.parametrize(
    ("target", "volumes"), [("operator", '["/tmp"]'), ("job", '["/tmp", "/var/lib/sparkstate"]')]
)
def test_every_writable_path_is_a_named_volume(target: str, volumes: str) -> None:
    assert of(target, "VOLUME") == [volumes]


@pytest.mark.parametrize("target", TARGETS)
def test_nothing_is_built_or_downloaded_when_a_container_starts(target: str) -> None:
    (entry,) = of(target, "ENTRYPOINT")
    assert entry.startswith("["), "a shell form would hide signals from the process"
    for script in ("entry", "sparkstate-driver", "executor.py"):
        text = (ROOT / "packaging" / script).read_text()
        assert not re.search(r"\b(pip|apt|curl|wget|uv)\b", text)


@pytest.mark.parametrize("target", TARGETS)
def test_a_final_image_has_no_build_tools(target: str) -> None:
    assert "build" not in lineage(target)
    assert not [run for run in of(target, "RUN") if "pip install" in run or "python3-venv" in run]


def test_the_operator_installs_no_extra_and_the_job_no_operator() -> None:
    locked = {
        stage: run for stage, name, run in instructions() if name == "RUN" and "install.sh locked" in run
    }
    assert "install.sh locked sparkstate-operator &&" in locked["operator-packages"]
    assert "install.sh locked sparkstate --extra rocksdb --extra s3 &&" in locked["job-packages"]


@pytest.mark.parametrize(
    ("target", "folder", "wheels", "also"),
    [
        ("operator", "operator", [], ""),
        ("job", "engine", ["--from=compiled /opt/wheels wheels"], " wheels/*.whl"),
    ],
)
def test_an_image_gets_its_own_code_and_the_reading_of_the_spec_in_one_layer(
    target: str, folder: str, wheels: list[str], also: str
) -> None:
    code = f"{target}-code"
    copied = [args for stage, name, args in instructions() if stage == code and name == "COPY"]
    assert copied == ["LICENSE NOTICE ./", "spec spec", f"{folder} {folder}", *wheels]
    (built,) = [args for stage, name, args in instructions() if stage == code and name == "RUN"]
    assert built == f"sh /opt/packaging/install.sh own /opt/own spec {folder}{also}"
    assert f"--from={code} /opt/own /opt/sparkstate" in of(target, "COPY")


def test_a_c_compiler_is_in_one_stage_of_which_only_the_wheel_is_taken() -> None:
    stages = {stage for stage, name, run in instructions() if name == "RUN" and re.search(r"\bgcc\b", run)}
    assert stages == {"compiled"}
    assert not [target for target in TARGETS if "compiled" in lineage(target)]
    taken = [(stage, args) for stage, _, args in instructions() if "--from=compiled" in args]
    assert taken == [("job-code", "--from=compiled /opt/wheels wheels")]


def test_the_compiled_path_is_on_unless_a_job_turns_it_off() -> None:
    assert not [args for _, name, args in instructions() if name == "ENV" and "SPARKSTATE_COMPILED" in args]


def test_a_change_of_our_own_code_does_not_compile_anew() -> None:
    copied = {args for stage, name, args in instructions() if stage == "compiled" and name == "COPY"}
    assert copied == {"compiled compiled"}


def test_packages_come_from_the_lock_with_their_hashes() -> None:
    script = (ROOT / "packaging" / "install.sh").read_text()
    assert "uv export --quiet --frozen" in script
    assert "--require-hashes" in script


def test_apt_lists_do_not_stay_in_a_final_image() -> None:
    for target in TARGETS:
        for run in of(target, "RUN"):
            if "apt-get install" in run:
                assert "--no-install-recommends" in run
                assert "rm -rf /var/lib/apt/lists/*" in run


def test_secrets_of_the_build_host_are_mounted_and_never_copied() -> None:
    for _, name, arguments in instructions():
        if name in ("COPY", "ADD", "ENV", "ARG"):
            assert not re.search(r"pip\.conf|ca-certificates\.crt|SECRET|TOKEN", arguments)


def test_the_build_context_is_a_list_of_what_is_copied() -> None:
    kept = {
        line.removeprefix("!")
        for line in (ROOT / ".dockerignore").read_text().splitlines()
        if line.startswith("!")
    }
    copied = {
        source.split("/")[0]
        for _, name, arguments in instructions()
        if name == "COPY" and "--from" not in arguments
        for source in arguments.split()[:-1]
        if not source.startswith("--")
    }
    assert copied == kept


def test_the_archive_of_classes_is_made_in_the_files_that_the_image_has_and_without_our_own_code() -> None:
    """Other copies of the jars have other times, and a JVM would leave the archive alone."""
    assert lineage("classes")[1:] == lineage("job")[1:]
    (made,) = [run for run in of("classes", "RUN") if "classes.py" in run]
    (environment,) = [env for env in of("job", "ENV") if "SPARKSTATE_CLASS_ARCHIVE" in env]
    archive = environment.split("=")[1]
    assert Path(archive).parent == Path(made.split()[-1])
    copied = [copy for copy in of("job", "COPY") if copy.startswith("--from=classes ")]
    jar = archive.replace(".jsa", ".jar")
    assert copied == [f"--from=classes {jar} {archive} {Path(archive).parent}/"]
    assert not [copy for copy in of("classes", "COPY") if "job-code" in copy or "engine" in copy]
