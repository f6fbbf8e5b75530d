"""The linter of the English in the documents and docstrings: proselint with rules of our own.

Why proselint (BSD-3-Clause): two wheels of together 0.7 MB from PyPI, rules are data in Python, and all pages and
docstrings take two seconds. Vale knows more of Markdown, but its package on PyPI downloads a program from
elsewhere when it first runs, and building its Go module takes minutes, a C compiler and half a gigabyte of
modules on a machine that wants nothing but ``make check``. textlint would bring Node.js. Both ask for the same
rules: the faults that this project makes are in no style that either ships.

``texts`` cuts the prose out of a file, ``rules`` says what is a fault, ``vocabulary`` what is none here.
"""
