"""Create-if-absent with an answer that can be trusted: what is stored under the name now?

``AlreadyExists`` alone does not say whose object it is. A try whose answer was lost, repeated by us or by something in
between, finds its own first try; only the stored bytes tell it from another's.
"""

from __future__ import annotations

from sparkstate import errors
from sparkstate.storage.objectstore import ObjectStore


def create_or_read(store: ObjectStore, key: str, data: bytes) -> bytes:
    """Create the object if its name is free; return the bytes that lie there then (``data``, if they are ours).

    Raises ``StorageUnavailable``, besides what the store raises, when the storage says that the name is taken and then
    that there is no such object: the outcome is open, as after a lost answer.
    """
    try:
        store.put_if_absent(key, data)
    except errors.AlreadyExists as taken:
        try:
            return store.get(key)
        except errors.NotFound as error:
            raise errors.StorageUnavailable(
                f"{store.url}/{key}: the storage refused to create it because it exists ({taken}), and then did not "
                "find it; whether it was created is open, it is tried again"
            ) from error
    return data
