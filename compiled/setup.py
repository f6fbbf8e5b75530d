"""Compiles the extension module. Everything else about the distribution is in ``pyproject.toml``."""

from __future__ import annotations

from Cython.Build import cythonize
from setuptools import Extension, setup

# No -march: a wheel runs on every processor of its architecture. Debugging information would be four fifths of the
# file, and the flags of many Pythons ask for it.
FLAGS = ["-O3", "-g0"]

setup(
    ext_modules=cythonize(
        [
            Extension(
                "sparkstate_compiled.records",
                ["src/sparkstate_compiled/records.pyx"],
                extra_compile_args=FLAGS,
            )
        ],
        # Below build/, so that no C file of 40,000 lines lies among the sources.
        build_dir="build/cython",
        # No other directive: what is given here would override the head of the file, which says what it relies on.
        compiler_directives={"language_level": "3"},
    )
)
