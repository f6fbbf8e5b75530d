"""EmbeddedRocksDBStateBackend on rocksdict: the only package that imports it, and only in the modules that
open stores.

Start with ``factory.py`` (one per slot: memory, threads, options) and ``store.py`` (one per shard: commit,
snapshot, restore). ``effective.py`` decides which RocksDB options hold; ``layout.py`` says how a cell becomes
a row.
"""
