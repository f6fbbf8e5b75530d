"""EmbeddedRocksDBStateBackend on rocksdict: the only package that imports it, and only in the modules that open stores.

Start with ``factory`` (one per slot: memory, threads, options) and ``store`` (one per shard: commit, snapshot,
restore). ``effective`` decides which RocksDB options hold; ``layout`` says how a cell becomes a row.

Its theory: nothing on the local disk is recovered by RocksDB itself. So there is no write-ahead log, and a database is
begun empty or from a snapshot's files. One cache and one write buffer manager bound the memory of all stores of a slot.
Nothing may wait inside RocksDB with the interpreter lock held: heartbeats and uploads would wait too.
"""
