"""Durable storage behind one small seam: a local folder or S3, see :mod:`sparkstate.storage.objectstore`."""

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
