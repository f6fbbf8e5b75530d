"""Code that scripts, benchmarks and tests share: parts that are fetched, servers, clusters and jobs that are started.

A package of this checkout, installed into ``.venv`` in place and never published. It knows the distributions, and
nothing of ``scripts/``, ``benchmarks/`` and ``tests/``, which all import it; ``tests/support`` has what a single
test folder needs.
"""
