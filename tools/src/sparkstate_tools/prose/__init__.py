"""The linter of the English in documents, docstrings and messages: proselint with rules of our own.

Why proselint (BSD-3-Clause): it is maintained, its two wheels on PyPI have 0.7 MB together, a rule is a value in
Python, and all pages and modules take eight seconds. Vale knows more of Markdown, but its package on PyPI
downloads a program from elsewhere when it first runs, and its Go module would have to be built on every machine
that runs ``make check``. textlint would need Node.js there. The faults that this project makes are in no style
that any of them ships, so all of them would need the same rules.

``texts`` cuts the prose out of a page, and ``literals`` out of a module. ``rules`` says what is a fault, ``wrapping``
finds words alone on a last line, and ``vocabulary`` lists words that are right here.
"""
