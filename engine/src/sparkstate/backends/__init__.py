"""Stores of one shard's committed state: ``base`` is the contract, ``hashmap`` and ``rocksdb`` keep it.

The two never import each other, and only ``rocksdb`` imports rocksdict, so HashMap works without it. Both read and
write the canonical file (``canonical``), which is why a savepoint moves from one to the other. The conformance kit
(``conformance``) holds any store to the contract.

The room knows tables, rows, key groups, and the folders of one slot. It sees an epoch's changes when they are to become
state, and before that only as a ``Spill``. It knows neither Spark nor the place to which a snapshot's files go.
"""
