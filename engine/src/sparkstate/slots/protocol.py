"""The messages between driver, Spark tasks and slots: frames of msgpack, and Arrow streams after some of them.

A connection begins with the handshake (``slots.handshake``); only then are requests read, so nobody without the
attempt's key for slots can reach user code (``Configure`` carries a cloudpickle of it, and a slot takes one in its
life). Each request is one frame of the ``Channel``: a tagged msgspec struct. A caller's role decides what it may ask.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias, get_args

import msgspec

from sparkstate import errors
from sparkstate.checkpoint.metadata import Committable
from sparkstate.functions import MIN_WATERMARK
from sparkstate.handles import FileHandle, ShardHandle, StateMeta
from sparkstate.slots.channel import Channel, view
from sparkstate.slots.handshake import Role

MAX_FRAME_BYTES: Final = 1 << 30
"""Of a message. Batches of rows are frames of their own, which may be larger (``slots.channel``)."""


class Message(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """Base of all requests and replies."""


class Configure(Message, frozen=True, kw_only=True, tag=True):
    """First request of the driver, once in a slot's life: what it is.
    ``plan`` is a cloudpickle of :class:`slots.plan.SlotPlan`."""

    plan: bytes


class RestoreShards(Message, frozen=True, kw_only=True, tag=True):
    """Download and open the slot's shards, then open its operators. Empty ``shards`` means: start empty."""

    shards: tuple[ShardHandle, ...] = ()
    base_url: str = ""
    """URL that the handles' paths are relative to (the lineage's root, or a savepoint's folder)."""
    checkpoint_id: int = -1
    """The checkpoint of this lineage that the handles belong to, whose shared files may be referred to; -1: none."""
    operator_state: tuple[FileHandle, ...] = ()
    """The operator state of all slots of the snapshot, in order."""
    restored_id: int = -1
    """The checkpoint or savepoint that is restored, which functions are told; -1: none."""
    watermark: int = MIN_WATERMARK
    """That of the snapshot."""
    dropped: tuple[str, ...] = ()
    """The uids of operators whose state the slot lets go, because the job no longer has them."""


class Feed(Message, frozen=True, kw_only=True, tag=True):
    """A Spark task brings rows of one part of the epoch: an Arrow stream follows, then the reply :class:`FeedAck`.

    Several tasks may bring parts to one attempt. A part belongs to the ``task`` that comes with it first.
    """

    incarnation: int
    epoch: int
    operator: str
    attempt: int
    anew: bool
    """Whether the attempt brings all rows of those with a lower number anew, so that these are worth nothing."""
    part: int
    task: int
    follows: int
    """The epoch whose commit the rows wait for, because they must see the state that it leaves; -1: none."""
    watermark: int
    processing_time: int


class Finish(Message, frozen=True, kw_only=True, tag=True):
    """Of these attempts, ``attempt`` won (-1: nobody fed, as in an idle epoch). Fire timers up to ``watermark``."""

    incarnation: int
    epoch: int
    operator: str
    attempt: int
    rows: int
    """How many rows the tasks that Spark counts as successful brought to that attempt."""
    watermark_before: int
    watermark: int
    processing_time: int


class ReadOutput(Message, frozen=True, kw_only=True, tag=True):
    """A Spark task asks for an operator's output of an epoch; the reply is an Arrow stream."""

    incarnation: int
    epoch: int
    operator: str
    tag: str | None = None


class Commit(Message, frozen=True, kw_only=True, tag=True):
    """The overlays of this epoch are state from now on."""

    incarnation: int
    epoch: int


class Release(Message, frozen=True, kw_only=True, tag=True):
    """The outputs of this epoch and earlier ones were read; the slot may forget them."""

    incarnation: int
    epoch: int


class Snapshot(Message, frozen=True, kw_only=True, tag=True):
    """Take a snapshot of the committed state. Answered when the request is accepted; ask for the result."""

    incarnation: int
    checkpoint_id: int
    epoch: int
    canonical: bool = False
    """In the form that every backend reads; False: in the backend's own."""
    target_url: str = ""
    """A savepoint's own folder; empty: the lineage."""
    base: int = -1
    """The committed checkpoint whose shared files may be referred to; -1: upload everything."""
    timestamp_ms: int = 0
    """When the driver began it."""


class SnapshotPoll(Message, frozen=True, kw_only=True, tag=True):
    """How far is that snapshot? Answered with :class:`SnapshotState` as soon as it is done, or after ``wait_s``."""

    checkpoint_id: int
    wait_s: float = 0.0


class CheckpointDone(Message, frozen=True, kw_only=True, tag=True):
    """The checkpoint completed (its files are a base for increments) or was given up."""

    checkpoint_id: int
    completed: bool


class Status(Message, frozen=True, kw_only=True, tag=True):
    """Ask for :class:`SlotStatus`."""


class ReadLog(Message, frozen=True, kw_only=True, tag=True):
    """Ask for :class:`LogLines`."""


class RestorePoll(Message, frozen=True, kw_only=True, tag=True):
    """How far is the restore? Answered at once with :class:`Transferred`."""


class ReadState(Message, frozen=True, kw_only=True, tag=True):
    """Ask for one key's committed state."""

    operator: str
    state: str
    key: str
    """JSON of the key: a scalar, or a list for several key columns."""
    key_group: int
    namespace: str | None = None


class ReadOperatorState(Message, frozen=True, kw_only=True, tag=True):
    """Ask for the committed operator state of a slot."""

    operator: str
    state: str


class Quiesce(Message, frozen=True, kw_only=True, tag=True):
    """Only a last snapshot comes: begin no work that later epochs would gain by."""


class Stop(Message, frozen=True, kw_only=True, tag=True):
    """Close the operators and end the process."""


class Ok(Message, frozen=True, kw_only=True, tag=True):
    """Done."""


class Failed(Message, frozen=True, kw_only=True, tag=True):
    """``reason`` is the name of the error class; ``message`` tells what to do."""

    reason: str
    message: str


class FeedAck(Message, frozen=True, kw_only=True, tag=True):
    """The whole stream was taken."""

    rows: int


class Restored(Message, frozen=True, kw_only=True, tag=True):
    """The shards are filled and the operators open."""

    bytes_read: int
    bytes_found: int = 0
    """Of ``bytes_read``, what an earlier slot had left on the same disk."""
    states: tuple[str, ...] = ()
    """``uid/name`` of every restored table."""


class Finished(Message, frozen=True, kw_only=True, tag=True):
    """The operator has finished the epoch."""

    rows_in: int
    rows_by_tag: dict[str, int]
    """Rows of the main output (``\"\"``) and of side outputs."""
    late_rows: int
    timers_fired: int
    dropped_rows: int = 0
    """Rows for side outputs that nothing in the job reads."""
    busy_ms: float = 0.0
    """How long the slot has worked on it."""


class Committed(Message, frozen=True, kw_only=True, tag=True):
    """The epoch is state now."""

    next_event_timer: int | None = None
    next_processing_timer: int | None = None
    waited_ms: float = 0.0
    """How long the commit waited for the synchronous part of a snapshot."""
    held_bytes: int = 0
    """Output of file sinks that is on the slot's disk until checkpoints have committed."""
    swept: int = 0
    """Entries of state that had expired and were removed."""
    next_sweep: int | None = None
    """The processing time from which the next sweep is worth an epoch of its own; None: none is."""


class SnapshotState(Message, frozen=True, kw_only=True, tag=True):
    """``done`` with handles, or not yet. ``sync_ms``: flush and freeze; ``upload_ms``: the rest."""

    done: bool
    shards: tuple[ShardHandle, ...] = ()
    committables: tuple[Committable, ...] = ()
    sync_ms: float = 0.0
    upload_ms: float = 0.0
    failure: str = ""
    failure_reason: str = ""
    states: tuple[StateMeta, ...] = ()
    operator_state: FileHandle | None = None
    """None: the job has none."""
    done_bytes: int = 0
    """Bytes that are stored."""
    total_bytes: int = 0
    """Bytes that there are to store; of a savepoint the size of the state, which its files only come near."""


class UserMetric(msgspec.Struct, frozen=True, kw_only=True):
    """The reading of one metric of a function's own (``operators.user_metrics.Reading``)."""

    operator: str
    name: str
    kind: str
    count: float | None = None
    rate: float | None = None
    sum: float | None = None
    least: float | None = None
    largest: float | None = None


class OperatorSize(msgspec.Struct, frozen=True, kw_only=True):
    """The committed state of one operator in a slot. ``state_rows`` does not count timers."""

    operator: str
    state_rows: int
    state_bytes: int
    timers: int


class OperatorStateSize(msgspec.Struct, frozen=True, kw_only=True):
    """A committed operator state in a slot. ``size_bytes``: an estimate of the memory that it takes."""

    operator: str
    state: str
    mode: str
    elements: int
    size_bytes: int


class SlotStatus(Message, frozen=True, kw_only=True, tag=True):
    """Sizes and memory of a slot."""

    slot: int
    pid: int
    shards: tuple[int, ...]
    state_bytes: int
    state_rows: int
    rss_bytes: int
    memory: dict[str, int]
    metrics: dict[str, float]
    held_bytes: int = 0
    user_metrics: tuple[UserMetric, ...] = ()
    user_metrics_not_shown: int = 0
    operators: tuple[OperatorSize, ...] = ()
    operator_states: tuple[OperatorStateSize, ...] = ()


class LogLines(Message, frozen=True, kw_only=True, tag=True):
    """The last lines of the slot's log, oldest first, without secrets."""

    lines: tuple[str, ...]


class Transferred(Message, frozen=True, kw_only=True, tag=True):
    """Bytes that have come of those that have to come."""

    done_bytes: int
    total_bytes: int


class StateValue(Message, frozen=True, kw_only=True, tag=True):
    """``kind`` of the state, and JSON of the committed value; ``null`` when there is none."""

    kind: str
    value: str


Request: TypeAlias = (
    Configure
    | RestoreShards
    | Feed
    | Finish
    | ReadOutput
    | Commit
    | Release
    | Snapshot
    | SnapshotPoll
    | CheckpointDone
    | Status
    | ReadLog
    | RestorePoll
    | ReadState
    | ReadOperatorState
    | Quiesce
    | Stop
)
Reply: TypeAlias = (
    Ok
    | Failed
    | FeedAck
    | Restored
    | Finished
    | Committed
    | SnapshotState
    | SlotStatus
    | LogLines
    | Transferred
    | StateValue
)

ALLOWED: Final[Mapping[Role, frozenset[type[Message]]]] = {
    Role.TASK: frozenset({Feed, ReadOutput}),
    Role.DRIVER: frozenset(get_args(Request)) - {Feed, ReadOutput},
}
"""The requests that each caller may make."""

_ENCODER = msgspec.msgpack.Encoder()
_REQUESTS = msgspec.msgpack.Decoder(Request)
_REPLIES = msgspec.msgpack.Decoder(Reply)


def send(channel: Channel, message: Message) -> None:
    """Send one message. Raises ``SpecInvalid`` for one that the other end would not read."""
    data = _ENCODER.encode(message)
    if len(data) > MAX_FRAME_BYTES:
        raise errors.SpecInvalid(
            f"{type(message).__name__} of {len(data):,} bytes does not fit one message to or from a slot (at most "
            f"{MAX_FRAME_BYTES:,}): let functions load large data in open(), use more slots, or lower "
            "checkpointing.inlineThreshold"
        )
    channel.send(data)


def receive_request(channel: Channel) -> Request:
    """The next request. Raises ``SlotLost`` for any other message."""
    request: Request = _decoded(_REQUESTS, channel)
    return request


def receive_reply(channel: Channel) -> Reply:
    """The next reply. Raises ``SlotLost`` for any other message."""
    reply: Reply = _decoded(_REPLIES, channel)
    return reply


def _decoded(decoder: msgspec.msgpack.Decoder[Any], channel: Channel) -> Any:
    try:
        return decoder.decode(view(channel.receive(MAX_FRAME_BYTES)))
    except msgspec.MsgspecError as error:
        raise errors.SlotLost(f"a frame holds no message of this protocol: {error}") from error
