"""The answers of a slot to requests: before its plan comes, and after.

A slot's process listens before it knows what it is for, because the plan comes over a connection.
"""

from __future__ import annotations

from collections.abc import Iterable

from sparkstate import errors
from sparkstate.slots import batches, logs, protocol
from sparkstate.slots.channel import Channel
from sparkstate.slots.runtime import SlotRuntime


class UnconfiguredSlot:
    """Has no plan yet, and nothing to close."""

    def answer(self, connection: Channel, request: protocol.Request) -> None:
        """Refuse."""
        raise errors.SlotLost("this slot has not been configured yet")

    def close(self) -> None:
        """There is nothing to close."""

    def end(self) -> None:
        """There is nothing to end."""


class ConfiguredSlot:
    """Answers by ``runtime``, from any number of threads."""

    def __init__(self, runtime: SlotRuntime) -> None:
        self.runtime = runtime

    def answer(self, connection: Channel, request: protocol.Request) -> None:
        """Carry ``request`` out and send the answer. Raises the error that is sent in place of one."""
        if isinstance(request, protocol.Feed):
            self._feed(connection, request)
        elif isinstance(request, protocol.ReadOutput):
            self._send_output(connection, request)
        else:
            protocol.send(connection, _reply(self.runtime, request))

    def close(self) -> None:
        """Close the runtime with its stores."""
        self.runtime.close()

    def end(self) -> None:
        """As :meth:`close`, for a process that ends at once."""
        self.runtime.end()

    def _feed(self, connection: Channel, request: protocol.Feed) -> None:
        stream = batches.receive(connection)
        try:
            incoming = self.runtime.begin_feed(request)
        except Exception:
            _drain(stream)
            raise
        rows = 0
        try:
            for batch in stream:
                incoming.put(batch)
                rows += batch.num_rows
        except (OSError, errors.SlotLost) as error:
            told = f"task {request.task} broke off after {rows} rows of part {request.part}: {error}"
            incoming.break_off(errors.FeedBroken(told))
            raise
        except BaseException as error:
            incoming.break_off(error)
            _drain(stream)
            raise
        if incoming.failure is not None:
            raise incoming.failure
        protocol.send(connection, protocol.FeedAck(rows=rows))

    def _send_output(self, connection: Channel, request: protocol.ReadOutput) -> None:
        schema, output = self.runtime.output(request)
        protocol.send(connection, protocol.Ok())
        batches.send_all(connection, schema, output)


def _drain(stream: Iterable[object]) -> None:
    """Read the rest, so that the task reads the answer instead of a broken pipe."""
    for _ in stream:
        pass


def _reply(runtime: SlotRuntime, request: protocol.Request) -> protocol.Reply:
    match request:
        case protocol.RestoreShards():
            return runtime.restore(request)
        case protocol.Finish():
            return runtime.finish(request)
        case protocol.Commit():
            return runtime.commit(request)
        case protocol.Release():
            runtime.release(request)
            return protocol.Ok()
        case protocol.Snapshot():
            runtime.snapshot(request)
            return protocol.Ok()
        case protocol.SnapshotPoll():
            return runtime.snapshot_state(request)
        case protocol.CheckpointDone():
            runtime.checkpoint_done(request)
            return protocol.Ok()
        case protocol.Quiesce():
            runtime.quiesce()
            return protocol.Ok()
        case _:
            return _told(runtime, request)


def _told(runtime: SlotRuntime, request: protocol.Request) -> protocol.Reply:
    """The answer to a question, which changes nothing."""
    match request:
        case protocol.Status():
            return runtime.status()
        case protocol.ReadLog():
            return protocol.LogLines(lines=logs.own_lines())
        case protocol.RestorePoll():
            return runtime.restored_so_far()
        case protocol.ReadState():
            return runtime.read_state(request)
        case protocol.ReadOperatorState():
            return runtime.read_operator_state(request)
        case _:
            raise errors.SlotLost(f"a slot does not answer {type(request).__name__}")
