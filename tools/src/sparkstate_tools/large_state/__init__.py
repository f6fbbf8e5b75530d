"""Input of the large-state job of ``benchmarks/large_state``, and what must come out of it."""
