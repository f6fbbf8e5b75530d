"""The job as it was declared: keyed operators over its inputs, which are streaming DataFrames. Data only."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Literal

from sparkstate import errors, user_errors
from sparkstate.functions import KeyedFunction, OutputTag, require_tag
from sparkstate.sinks.file_sink import FileSink
from sparkstate.spark import wrong_calls
from sparkstate.spark.code_layer import CodeLayer
from sparkstate.spark.combining import Combining
from sparkstate.state.descriptors import MapStateDescriptor
from sparkstate.state_backend import StateBackend
from sparkstate_spec.given import Leaves

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

UserSink = Callable[["DataFrame", int], None]
"""A sink of the user's: gets the epoch's output and the epoch's number."""


_SKEWED = (
    "the input is Kafka's and has one watermark: rows of a partition that is read behind the others are late; "
    "keep the columns topic and partition and pass keyed(…, watermark_partition=['topic', 'partition']), or "
    "watermark_partition=[] if one watermark is meant"
)


@dataclass(frozen=True, kw_only=True)
class Source:
    """One streaming DataFrame. ``event_time`` is a column of it, ``delay_ms`` how late rows may be."""

    frame: DataFrame
    of_input: int = 0
    """The number of the job's input that it belongs to: those of one have the same columns, of the same types."""
    event_time: str | None = None
    delay_ms: int = 0
    idle_timeout_ms: int | None = None
    parts: tuple[str, ...] = ()
    """Columns that tell apart the parts of the source that are read at a pace of their own, each with a watermark."""
    has_taken_parts: bool = False
    """The job does not name ``parts``: they are Kafka's."""
    may_be_skewed: bool = False
    """It has parts, Kafka's partitions, and one watermark for all of them, without the job saying so."""


@dataclass(frozen=True, kw_only=True)
class Input:
    """A stream that an operator reads; without keys, its rows go to the slots in turn. ``upstream`` is (uid, tag) of an
    operator's output, or None for an input of the job, whose number is ``source``."""

    keys: tuple[str, ...]
    upstream: tuple[str, str | None] | None
    event_time: str | None
    source: int = 0
    is_broadcast: bool = False
    """Whether each row goes to every slot instead. It has no keys either."""

    @property
    def has_event_time(self) -> bool:
        """Of its own, or that of the row or timer that made a row."""
        return self.event_time is not None or self.upstream is not None


@dataclass(kw_only=True)
class Operator:
    """One ``keyed(…).process(…)``. ``upstream`` is (uid, tag), or None for an input of the job."""

    uid: str
    function: KeyedFunction
    keys: tuple[str, ...]
    upstream: tuple[str, str | None] | None
    event_time: str | None
    output_schema: str
    source: int = 0
    """The number of the job's input."""
    second: Input | None = None
    """The other stream of a ``connect(…)``; the fields above are those of the first."""
    second_late_tag: OutputTag | None = None
    second_error_tag: OutputTag | None = None
    broadcast_states: tuple[MapStateDescriptor, ...] = ()
    """Of an operator whose second input is broadcast."""
    on_error: Literal["fail", "side-output"] = "fail"
    error_tag: OutputTag | None = None
    late_tag: OutputTag | None = None
    sort_by_event_time: bool = False
    shipped: tuple[str, ...] | None = None
    """The columns of the rows that the function needs; None: all."""
    computed: tuple[tuple[str, str], ...] = ()
    """Hidden columns that Spark computes for the function: name and SQL text."""
    combining: Combining | None = None
    """What Spark may add up before rows go to the slots."""
    side_outputs: dict[str, OutputTag] = field(default_factory=dict)

    @property
    def inputs(self) -> tuple[Input, ...]:
        """The streams that it reads: one or two."""
        first = Input(keys=self.keys, upstream=self.upstream, event_time=self.event_time, source=self.source)
        return (first,) if self.second is None else (first, self.second)

    @property
    def reads_batch(self) -> bool:
        """Whether an input of the job feeds it."""
        return any(each.upstream is None for each in self.inputs)

    @property
    def is_mixed(self) -> bool:
        """Whether an input of the job feeds it, and another operator as well."""
        return self.reads_batch and any(each.upstream is not None for each in self.inputs)

    @property
    def built_in_tags(self) -> tuple[tuple[str, OutputTag], ...]:
        """The side outputs that the engine writes: what is in them, and the tag."""
        tags = (
            ("rejected rows", self.error_tag),
            ("rejected rows of the second input", self.second_error_tag),
            ("late rows", self.late_tag),
            ("late rows of the second input", self.second_late_tag),
        )
        return tuple((what, tag) for what, tag in tags if tag is not None)


@dataclass(frozen=True, kw_only=True)
class SinkNode:
    """The destination of an output: a sink of ours, run in the slots, or a function of the user's."""

    uid: str
    operator: str
    tag: str | None
    sink: FileSink | UserSink


@dataclass
class Graph:
    """Everything that ``job(spark, params)`` declared, in the order of declaration."""

    sources: list[Source] = field(default_factory=list)
    operators: dict[str, Operator] = field(default_factory=dict)
    sinks: list[SinkNode] = field(default_factory=list)
    backend: StateBackend | None = None
    """The choice of the job's code; the manifest gives what that leaves open."""
    code: CodeLayer = field(default_factory=CodeLayer)
    """The manifest's fields that the job's code sets, the backend's among them."""

    def add_sources(self, sources: list[Source]) -> int:
        """An input of the job; its number. A second ``keyed`` over the same DataFrames shares it."""
        frames = [id(source.frame) for source in sources]
        for number in range(self.input_count):
            known = [source for _, source in self.sources_of(number)]
            if [id(source.frame) for source in known] == frames:
                _check_times(known, sources)
                return number
        number = self.input_count
        self.sources = [*self.sources, *(replace(source, of_input=number) for source in sources)]
        return number

    @property
    def input_count(self) -> int:
        """How many inputs the job has."""
        return len({source.of_input for source in self.sources})

    def parts_of(self, each: Input) -> tuple[str, ...]:
        """The columns that tell the parts of a source apart; none in an operator's output."""
        return self.sources_of(each.source)[0][1].parts if each.upstream is None else ()

    def sources_of(self, number: int) -> list[tuple[int, Source]]:
        """The DataFrames of one of the job's inputs, with their numbers among all of the job's."""
        return [(at, source) for at, source in enumerate(self.sources) if source.of_input == number]

    def source_readers(self) -> tuple[tuple[str, ...], ...]:
        """By source, the inputs of operators that read it: ``uid/input``."""
        return tuple(
            tuple(
                f"{operator.uid}/{number}"
                for operator in self.operators.values()
                for number, each in enumerate(operator.inputs)
                if each.upstream is None and each.source == source.of_input
            )
            for source in self.sources
        )

    def keep_one_watermark(self, sources: Collection[int]) -> list[str]:
        """For state in which these sources have one watermark each: parts that the job does not name are not taken of
        their inputs. With them a quiet partition would hold a watermark that it never held. The other sources of such
        an input have the same columns, and lose theirs as well. Returns what a reader should know."""
        inputs = {
            each.of_input for at, each in enumerate(self.sources) if at in sources and each.has_taken_parts
        }
        if not inputs:
            return []
        self.sources = [
            replace(each, parts=(), has_taken_parts=False, may_be_skewed=True)
            if each.of_input in inputs
            else each
            for each in self.sources
        ]
        return [_SKEWED]

    def notices(self) -> list[str]:
        """Sentences about what a reader of the job's code may not expect."""
        skewed = [_SKEWED] if any(s.may_be_skewed for s in self.sources) else []
        return [*skewed, *self.unread(), *self.code.notices]

    def unread(self) -> list[str]:
        """A sentence for each built-in side output whose rows are dropped, because nothing in the job reads it."""
        return [
            f"operator {operator.uid!r}: {what} are counted (sparkstate_dropped_rows_total) and dropped, because "
            f"nothing reads the side output {tag.tag_id!r}; "
            f".side_output(OutputTag({tag.tag_id!r})).sink(…) keeps them"
            for operator in self.operators.values()
            for what, tag in operator.built_in_tags
            if tag.tag_id not in operator.side_outputs
        ]

    def add(self, operator: Operator) -> None:
        """Declare an operator; uids are unique, because state is found again by them."""
        if operator.uid in self.operators:
            raise errors.SpecInvalid(f"two operators have the uid {operator.uid!r}; give each its own")
        _check_tags(operator)
        self._check_last_rows(operator)
        self.operators[operator.uid] = operator

    def _check_last_rows(self, operator: Operator) -> None:
        """Rows of ``finish`` have no event time, as in Flink: a function that needs one would fail at the very end."""
        if not operator.function.needs_event_time:
            return
        for each in operator.inputs:
            finishing = self._with_last_rows(each)
            if finishing is not None:
                raise errors.SpecInvalid(
                    f"operator {operator.uid!r} needs the event time of each row, and the rows that finish() of "
                    f"{finishing!r} yields have none, so the job would fail at the end of its input; let {finishing!r} "
                    f"put out a column of event time, and name it: keyed(…, event_time=…) before {operator.uid!r}"
                )

    def _with_last_rows(self, stream: Input) -> str | None:
        """The operator above, perhaps above others, whose rows of ``finish`` come by this way without event time."""
        if stream.event_time is not None or stream.upstream is None:
            return None
        above, tag = self.operators[stream.upstream[0]], stream.upstream[1]
        if tag in _ids(above.late_tag, above.second_late_tag):
            return None  # a row without event time is never late
        is_rejected = tag in _ids(above.error_tag, above.second_error_tag)
        if not is_rejected and inspect.isgeneratorfunction(above.function.finish):
            return above.uid
        return next(filter(None, map(self._with_last_rows, above.inputs)), None)

    def add_sink(self, operator: str, tag: str | None, sink: FileSink | UserSink) -> None:
        """Declare a sink; its uid is derived, so that a restarted job finds its committables."""
        same = sum(1 for node in self.sinks if (node.operator, node.tag) == (operator, tag))
        uid = "-".join(filter(None, [operator, tag, str(same) if same else ""]))
        if isinstance(sink, FileSink):
            self._check_files(uid, operator, tag)
        self.sinks.append(SinkNode(uid=uid, operator=operator, tag=tag, sink=sink))

    def _check_files(self, uid: str, operator: str, tag: str | None) -> None:
        """The files of a sink, and what a slot holds for it, have its uid in their names."""
        files = [node for node in self.sinks if isinstance(node.sink, FileSink)]
        for other in (node for node in files if node.uid == uid):
            raise errors.SpecInvalid(
                f"two sinks would write files of the name {uid!r}, that of {_output(other.operator, other.tag)} and "
                f"that of {_output(operator, tag)}; give the side output another tag, or one of the operators another "
                "uid, by which its state goes too"
            )
        if not _FILE_NAME.fullmatch(uid) or len(uid.encode()) > _FILE_NAME_BYTES:
            raise errors.SpecInvalid(
                f"the files of {_output(operator, tag)} would be named after {uid!r}; use a tag of at most 100 bytes "
                "of UTF-8 without '/' and '\\'"
            )

    def check(self) -> None:
        """A job needs an operator, and every leaf output a sink somewhere."""
        if not self.operators:
            raise errors.SpecInvalid(
                "the job's function declared no keyed operator; call sparkstate.keyed(df, key).process(…).sink(…)"
            )
        if not self.sinks:
            raise errors.SpecInvalid("the job has no sink; end it with .sink(FileSink(…)) or .sink(function)")

    def feeds_an_operator(self, uid: str, tag: str | None) -> bool:
        """Whether another operator reads this output, which then needs timestamps."""
        return any(each.upstream == (uid, tag) for op in self.operators.values() for each in op.inputs)


_FILE_NAME: Final = re.compile(r"[^/\\\x00]+")
_FILE_NAME_BYTES: Final = 180
"""A name on Linux has 255 bytes, of which a slot's files take the rest."""


def _output(operator: str, tag: str | None) -> str:
    return f"operator {operator!r}" if tag is None else f"side output {tag!r} of operator {operator!r}"


def _check_tags(operator: Operator) -> None:
    found: dict[str, str] = {}
    for what, tag in operator.built_in_tags:
        require_tag(tag, f"operator {operator.uid!r}: the output of {what}")
        other = found.setdefault(tag.tag_id, what)
        if other != what:
            raise errors.SpecInvalid(
                f"operator {operator.uid!r}: the outputs for {other} and for {what} both have the tag {tag.tag_id!r}; "
                "give each its own, because their rows have different columns"
            )


def _ids(*tags: OutputTag | None) -> set[str]:
    return {tag.tag_id for tag in tags if tag is not None}


def _check_times(known: list[Source], sources: list[Source]) -> None:
    times, before = _times_of(sources), _times_of(known)
    if times != before:
        raise errors.SpecInvalid(
            f"sparkstate.keyed was called twice on the same input, with other times: first with {before}, then "
            f"with {times}; the input has one watermark: give both the same event_time, delay, "
            "idle_timeout and watermark_partition"
        )


def _times_of(sources: list[Source]) -> str:
    """The sources' settings of event time, in words for an error."""
    times = [
        f"event_time={s.event_time!r}, delay={s.delay_ms} ms, idle_timeout="
        f"{None if s.idle_timeout_ms is None else f'{s.idle_timeout_ms} ms'}, watermark_partition={list(s.parts)}"
        for s in sources
    ]
    return "; ".join(times)


_current: list[Graph] = []


def current() -> Graph:
    """The graph of the job being declared."""
    if not _current:
        raise errors.SpecInvalid(
            "sparkstate.keyed was called outside of a job; put it into `def job(spark, params)` and start it with "
            "`sparkstate run job.yaml`"
        )
    return _current[-1]


def _of_the_code() -> tuple[type[BaseException], ...]:
    """Errors of the code itself, not of the data that it has read: a file that is missing may be there at the next
    start. A TypeError or AttributeError may come from an empty table; ``wrong_calls`` knows those that do not."""
    from pyspark.errors import ParseException

    return (errors.StateError, NameError, ImportError, SyntaxError, ParseException)


def _of_no_restart(error: Exception) -> str | None:
    """Error and remedy, if each start would raise it again."""
    if isinstance(error, errors.SparkstateError):
        return None
    if not isinstance(error, (TypeError, AttributeError)):
        from sparkstate.spark import missing_sources

        return missing_sources.told(error)
    remedy = wrong_calls.remedy(error)
    return None if remedy is None else f"{user_errors.describe(error)}; {remedy}"


def declare(function: Callable[..., Any], *arguments: Any, beneath: Leaves | None = None) -> Graph:
    """Call the job's function and return what it declared. ``beneath``: what the manifest gives, for the code to read.
    Raises ``DeclarationError`` for what no restart changes, and ``UserCodeError`` where the function calls
    ``sys.exit()``, whatever the code."""
    graph = Graph(code=CodeLayer(beneath))
    _current.append(graph)
    try:
        function(*arguments)
    except _of_the_code() as error:
        raise errors.DeclarationError(f"the job's function raised {user_errors.describe(error)}") from error
    except Exception as error:
        told = _of_no_restart(error)
        if told is None:
            raise
        raise errors.DeclarationError(f"the job's function raised {told}") from error
    except SystemExit as error:  # to the driver, that is the end of a job that has finished
        raise errors.UserCodeError(
            f"the job's function called sys.exit({error.code!r}); it declares the job and returns, and the driver ends "
            "the job: take the call out, or raise an exception"
        ) from error
    finally:
        _current.pop()
    graph.check()
    return graph
