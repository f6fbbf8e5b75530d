"""The linter of the English in the documents and docstrings: proselint with rules of our own.

Why proselint (BSD-3-Clause): it is maintained, its two wheels on PyPI have 0.7 MB together, a rule is a value in
Python, and all pages and docstrings take four seconds. Vale knows more of Markdown, but its package on PyPI
downloads a program from elsewhere when it first runs, and its Go module would have to be built on every machine
that runs ``make check``. textlint would need Node.js there. The faults that this project makes are in no style
that any of them ships, so all of them would need the same rules.

``texts`` cuts the prose out of a file, ``rules`` says what is a fault, ``vocabulary`` which words are right here.
"""
