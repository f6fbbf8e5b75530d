"""Durable storage behind one small seam: a local folder or S3, see :mod:`sparkstate.storage.objectstore`.

The room knows names and bytes. The rooms above know the meaning of an object: a log's entry, a checkpoint's file, a
sink's output. ``local`` and ``s3`` do not know each other, and both are held to one contract by the same tests: create
only if absent, list what was created, appear whole or not at all. Every error leaves as one of
:mod:`sparkstate.errors`, since callers wait for ``StorageUnavailable`` and give up at any other.
"""

from sparkstate.storage.objectstore import ObjectInfo, ObjectStore
from sparkstate.storage.opening import OpenStores, open_inside, open_made, open_store, open_within
from sparkstate.storage.prefixed import PrefixedStore

__all__ = [
    "ObjectInfo",
    "ObjectStore",
    "OpenStores",
    "PrefixedStore",
    "open_inside",
    "open_made",
    "open_store",
    "open_within",
]
