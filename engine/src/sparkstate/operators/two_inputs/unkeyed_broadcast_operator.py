"""One operator of a stream without keys and a broadcast one in one slot."""

from __future__ import annotations

from sparkstate import columns
from sparkstate.operators.spec import BroadcastSpec, UnkeyedBroadcastSpec
from sparkstate.operators.state.operator_states import OperatorStates
from sparkstate.operators.state.overlay import Overlay
from sparkstate.operators.state.tables import OperatorTables
from sparkstate.operators.two_inputs.broadcast_calls import BroadcastCalls
from sparkstate.operators.two_inputs.broadcast_operator import BroadcastOperator
from sparkstate.operators.two_inputs.unkeyed_broadcast_calls import UnkeyedBroadcastCalls


class UnkeyedBroadcastOperator(BroadcastOperator):
    """One operator of one slot (``operators.base.Operator``). To the overlay, all its rows have the null key."""

    def _make_calls(
        self, spec: BroadcastSpec, tables: OperatorTables, operator_states: OperatorStates
    ) -> BroadcastCalls:
        assert isinstance(spec, UnkeyedBroadcastSpec)
        self._read_keys = lambda read: [None] * len(read(columns.KEY_GROUP))
        return UnkeyedBroadcastCalls(spec, tables, operator_states, self._budget)

    def _fire(self, overlay: Overlay, watermark: int) -> None:
        """There are no timers without keys."""

    def next_timer(self) -> tuple[int | None, int | None]:
        """None. Timers that were restored stay in state: told as due, they would begin an epoch again and again."""
        return None, None
