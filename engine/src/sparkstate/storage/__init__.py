"""Durable storage behind one small seam: a local folder or S3, see :mod:`sparkstate.storage.objectstore`."""

from sparkstate.storage.objectstore import ObjectInfo, ObjectStore
from sparkstate.storage.opening import open_store
from sparkstate.storage.prefixed import PrefixedStore

__all__ = ["ObjectInfo", "ObjectStore", "PrefixedStore", "open_store"]
