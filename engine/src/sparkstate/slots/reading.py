"""Looking into a slot's committed state from outside."""

from __future__ import annotations

import json
from typing import Any

from sparkstate import errors
from sparkstate.checkpoint import operator_parts
from sparkstate.operators.state import asked_keys
from sparkstate.slots import protocol
from sparkstate.slots.commit_gate import CommitGate
from sparkstate.slots.slot_state import SlotState


def read_state(state: SlotState, gate: CommitGate, request: protocol.ReadState) -> protocol.StateValue:
    """One key's committed value, as JSON. Waits for a commit that is at work."""
    operator = state.operator(request.operator)
    key: Any = json.loads(request.key)
    namespace = None if request.namespace is None else json.loads(request.namespace)
    with gate.held():
        specs = {
            spec.name: spec
            for store in state.stores.values()
            for spec in store.tables()
            if spec.uid == request.operator
        }
        spec = specs.get(request.state)
        try:
            value = operator.read_state(
                request.state,
                key if spec is None else asked_keys.key_of(spec.key_type, key),
                asked_keys.namespace_of(namespace),
                request.key_group,
            )
        except errors.StateError as error:
            raise errors.SpecInvalid(str(error)) from error
    return protocol.StateValue(kind="value" if spec is None else spec.kind.value, value=json.dumps(value))


def read_operator_state(
    state: SlotState, gate: CommitGate, request: protocol.ReadOperatorState
) -> protocol.StateValue:
    """The slot's committed operator state of that name, as JSON. Waits for a commit that is at work."""
    operator = state.operator(request.operator)
    with gate.held():
        try:
            mode, value = operator.show_operator_state(request.state)
        except errors.StateError as error:
            raise errors.SpecInvalid(str(error)) from error
    return protocol.StateValue(kind=operator_parts.KINDS[mode], value=json.dumps(value))
