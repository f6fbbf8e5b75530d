"""Which type each row of a table was written with: the first byte of a value, its schema id.

As long as the type of a state stays as it was, all its rows have the schema id 0, and nothing here is used. When the
type changes so that stored values have to be migrated, the table gets the next id: rows are written with it from then
on, and a row with an earlier id is migrated each time it is read. No row is rewritten for that, so files that were
uploaded before are still those of the next checkpoint, and a start does not wait for a pass over all state.

A row of an earlier id goes through every step since then, in order. So state that is half migrated reads as if it had
been migrated whole at each change, with the aliases and defaults that were declared then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

import msgspec

from sparkstate import errors
from sparkstate.backends.base import TableSpec
from sparkstate.serde import expiring, migration, types
from sparkstate.serde.migration import Plan
from sparkstate.serde.typeinfo import SCHEMA_ID, SCHEMA_PREFIX, TypeInformation

LAST_ID: Final = 127
"""A schema id is one byte. The upper half is left to marks of other kinds."""
_MARK: Final = expiring.MARK[0]

Bytes: TypeAlias = Callable[[bytes], bytes]


class SchemaStep(msgspec.Struct, frozen=True):
    """An earlier type of a table."""

    type: str
    """The rows with this schema id are of this type, apart from a time-to-live."""
    plan: Plan
    """It leads to the type of the next step, or, from the last one, to the type that the table has now."""


class Schemas(msgspec.Struct, frozen=True, kw_only=True):
    """The earlier types of one table, by schema id; rows with the id after them are of the table's own type."""

    uid: str
    name: str
    steps: tuple[SchemaStep, ...] = ()

    def changed(self, before: TypeInformation, plan: Plan) -> Schemas:
        """With one more step. Raises ``StateMigrationError`` where no id is left."""
        if len(self.steps) >= LAST_ID:
            raise errors.StateMigrationError(
                f"state {self.name!r} of operator {self.uid!r}: its type has changed {LAST_ID} times since its rows "
                "were written, and RocksDB's files tell no more types apart; take a canonical savepoint with the job "
                "as it was, and start from that: it has all rows in one type"
            )
        described = expiring.value_type_of(before).describe()
        return msgspec.structs.replace(self, steps=(*self.steps, SchemaStep(described, plan)))


class SchemaCodec:
    """Changes schema ids of stored values. ``plain`` bytes have the id 0 and the table's own type, as everywhere
    outside of RocksDB's files. A value that expires has its time before the id (``serde.expiring``)."""

    def __init__(self, schemas: Schemas) -> None:
        self._id = len(schemas.steps)
        self._prefix = bytes([self._id])
        plans = [step.plan for step in schemas.steps]
        self._migrations: dict[int, Bytes] = {
            number: migration.Migration(types.parse(step.type), plans[number:])
            for number, step in enumerate(schemas.steps, SCHEMA_ID)
        }

    def plain(self, stored: bytes) -> bytes:
        """Of a stored value. A value with an id that nobody has given stays as it is, so that its type refuses it."""
        if not stored:
            return stored
        if stored[0] == _MARK:
            return stored[: expiring.STAMP_BYTES] + self.plain(stored[expiring.STAMP_BYTES :])
        number = stored[0]
        if number == self._id:
            return SCHEMA_PREFIX + stored[1:]
        migrate = self._migrations.get(number)
        return stored if migrate is None else migrate(SCHEMA_PREFIX + stored[1:])

    def stamped(self, plain: bytes) -> bytes:
        """The inverse, for values that are written now."""
        if plain[:1] == expiring.MARK:
            return plain[: expiring.STAMP_BYTES] + self.stamped(plain[expiring.STAMP_BYTES :])
        return self._prefix + plain[1:] if plain else plain


def taken_up(schemas: Schemas | None, spec: TableSpec, plan: Plan) -> Schemas:
    """The schemas of a table of ``spec`` whose values have to be migrated by ``plan``."""
    assert spec.value_type is not None
    return (schemas or Schemas(uid=spec.uid, name=spec.name)).changed(spec.value_type, plan)
