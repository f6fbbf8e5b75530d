"""The parts of ``benchmarks/rocksdb_trial.py``: candidates, one slot's life with one of them, and what it used."""
