"""The options of a read or a stream by ``format("esp")``: the names and the meaning are those of Spark's Kafka source, and some are new.

An option that is not known is refused by its name: one that is passed over in silence would be believed to work.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from esp.consumer.cluster import Address
from esp.consumer.connection import Terms
from esp.consumer.errors import SettingError
from esp.consumer.messages import EARLIEST, LATEST, Partition
from esp.consumer.partition_reader import FETCH_BYTES, FetchTerms
from esp.consumer.security import is_security_setting, read_security
from esp.options.durations import parse_duration_ms
from esp.options.errors import OptionError
from esp.options.servers import parse_servers
from esp.options.value_options import NAMES as OF_VALUES
from esp.options.value_options import ValueFormat, ValueOptions, parse_value_options
from esp.spark.limits import Limits
from esp.spark.topic_offsets import parse_offsets, parse_partitions

COLUMNS: Final = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
"""The columns of Spark's Kafka source, in its order; ``headers`` is there if it is asked for."""

_OF_STREAMS: Final = (
    "groupId",
    "maxBytesPerTrigger",
    "maxOffsetsPerTrigger",
    "maxTimePerTrigger",
    "maxTriggerDelay",
    "minOffsetsPerTrigger",
    "onTopicRecreated",
)
_OPTIONS: Final = (
    *_OF_STREAMS,
    *OF_VALUES,
    "assign",
    "columns",
    "endingOffsets",
    "endingOffsetsByTimestamp",
    "endingTimestamp",
    "failOnDataLoss",
    "includeHeaders",
    "kafkaConsumer.pollTimeoutMs",
    "maxBytesPerPartition",
    "maxRecordsPerPartition",
    "minPartitions",
    "startingOffsets",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "startingTimestamp",
    "subscribe",
    "subscribePattern",
)
_BY_LOWER: Final = {name.lower(): name for name in _OPTIONS}
"""Spark gives all names in lower case."""

_STRATEGIES: Final = ("subscribe", "subscribePattern", "assign")
_OF_SPARK: Final = frozenset({"path"})
"""Options that Spark itself adds: the argument of ``load``."""

_KAFKA: Final = "kafka."
_SERVERS: Final = "bootstrap.servers"
_ISOLATION: Final = "isolation.level"
_CLIENT_ID: Final = "esp-spark"
_NUMBERS: Final = {
    "default.api.timeout.ms": 60_000,
    "fetch.max.bytes": FETCH_BYTES,
    "fetch.max.wait.ms": 500,
    "fetch.min.bytes": 1,
    "max.partition.fetch.bytes": FETCH_BYTES,
    "request.timeout.ms": 30_000,
    "retry.backoff.ms": 100,
    "socket.connection.setup.timeout.ms": 10_000,
}
_NEVER_ZERO: Final = frozenset({"request.timeout.ms", "socket.connection.setup.timeout.ms"})
"""The settings of which 0 is refused: within no time no broker can be reached."""

_KAFKA_SETTINGS: Final = (
    "bootstrap.servers",
    "check.crcs",
    "client.id",
    _ISOLATION,
    *_NUMBERS,
    "security.protocol",
    "sasl.*",
    "ssl.*",
)
_POLL_TIMEOUT_MS: Final = 120_000
"""As Spark's ``spark.network.timeout``."""

_NUMBER_MOST: Final = 2**31 - 1
_LONG_MOST: Final = 2**63 - 1
_DIGITS_MOST: Final = 100
"""More than any number needs; Python refuses to read thousands of digits."""
_TRIGGER_DELAY_MS: Final = 15 * 60 * 1000
"""As in Spark's Kafka source."""


class Kind(Enum):
    """The kind of a read; Spark asks for the columns before it says which it is."""

    ANY = "any"
    BATCH = "batch"
    STREAM = "stream"


class OnRecreated(Enum):
    """What a stream does when a topic was deleted and created again: fail, or read the new one from an end of it."""

    FAIL = "fail"
    EARLIEST = "earliest"
    LATEST = "latest"


@dataclass(frozen=True, slots=True)
class Edge:
    """Where a read begins, or ends, in each partition.

    Attributes:
        option: the option that says it, for messages.
        value: its value.
        everywhere: an offset that stands for all partitions, ``EARLIEST`` or ``LATEST``; None if partitions have their own.
        offsets: by partition its offset, ``EARLIEST`` or ``LATEST``; None if timestamps say it.
        timestamp: one for all partitions; None if they have their own.
        timestamps: by partition; None if there are none.
    """

    option: str
    value: str
    everywhere: int | None = None
    offsets: Mapping[Partition, int] | None = None
    timestamp: int | None = None
    timestamps: Mapping[Partition, int] | None = None


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What is to be read, and how.

    Attributes:
        servers: the bootstrap servers.
        terms: of connections.
        api_timeout_s: the time for answers of the cluster while the read is planned.
        fetch_terms: of fetches.
        topics: the topics to read; None if a pattern or partitions say it.
        pattern: a regular expression for their names; likewise.
        partitions: the partitions to read; likewise.
        start: where to begin.
        end: where to end; None: a stream that does not end.
        latest_if_none: whether a start by a time after the last record is the end; otherwise it is an error.
        columns: the columns, in order.
        min_partitions: so many tasks at least; None: one for each partition.
        max_records: the records of a task; None: any number.
        max_bytes: the bytes of a task; None: any number.
        limits: of the micro-batches of a stream.
        on_recreated: what a stream does with a topic that was created again; None is not given, and it fails.
        group_id: the group to which a stream commits what it has read; None: none.
        values: how values become columns.
    """

    servers: tuple[Address, ...]
    terms: Terms
    api_timeout_s: float
    fetch_terms: FetchTerms
    topics: tuple[str, ...] | None
    pattern: str | None
    partitions: tuple[Partition, ...] | None
    start: Edge
    end: Edge | None
    latest_if_none: bool
    columns: tuple[str, ...]
    min_partitions: int | None
    max_records: int | None
    max_bytes: int | None
    limits: Limits = field(default_factory=Limits)
    on_recreated: OnRecreated | None = None
    group_id: str | None = None
    values: ValueOptions = field(default_factory=ValueOptions)


def parse_options(options: Mapping[str, str], kind: Kind = Kind.BATCH) -> ReadOptions:
    """Return what options say.

    Args:
        options: by names in any case.
        kind: of the read. Without it options of both kinds are allowed.

    Raises:
        OptionError: one is unknown, cannot be used, or is missing.
    """
    given: dict[str, str] = {}
    kafka: dict[str, str] = {}
    for name, value in options.items():
        lower = name.lower()
        if lower.startswith(_KAFKA):
            kafka[lower.removeprefix(_KAFKA)] = value
        elif lower in _BY_LOWER:
            given[_BY_LOWER[lower]] = value
        elif lower not in _OF_SPARK:
            raise OptionError(
                name,
                value,
                f"format esp does not know it: remove it. It knows {', '.join(sorted(_OPTIONS))} and kafka.*",
            )
        elif value:
            raise OptionError(
                name, value, "there are no files: name topics by the option subscribe, and call load() without a path"
            )
    try:
        terms, fetch_terms, api_timeout_s = _read_kafka(kafka, given)
    except SettingError as error:
        raise OptionError(error.name, error.value, error.problem) from error
    chosen = [name for name in _STRATEGIES if name in given]
    if len(chosen) != 1:
        names = " and ".join(chosen) or "none of them"
        raise OptionError(
            ", ".join(_STRATEGIES), None, f"one of them says what is read, and {names} is given: give one"
        )
    if kind is Kind.BATCH:
        for name in _OF_STREAMS:
            if name in given:
                raise OptionError(name, given[name], "it has an effect on streams only (readStream): remove it")
    strategy = chosen[0]
    text = given[strategy]
    topics = _topics(text) if strategy == "subscribe" else None
    columns, values = _columns_and_values(given, topics)
    return ReadOptions(
        servers=parse_servers(_KAFKA + _SERVERS, kafka.get(_SERVERS)),
        terms=terms,
        api_timeout_s=api_timeout_s,
        fetch_terms=fetch_terms,
        topics=topics,
        pattern=_pattern(text) if strategy == "subscribePattern" else None,
        partitions=tuple(parse_partitions("assign", text)) if strategy == "assign" else None,
        start=_start(given, kind),
        end=_end(given, kind),
        latest_if_none=_choice(given, "startingOffsetsByTimestampStrategy", ("error", "latest")) == "latest",
        columns=columns,
        min_partitions=_number(given, "minPartitions"),
        max_records=_number(given, "maxRecordsPerPartition"),
        max_bytes=_number(given, "maxBytesPerPartition"),
        limits=_limits(given),
        on_recreated=_on_recreated(given),
        group_id=_group(given),
        values=values,
    )


def parse_connection(options: Mapping[str, str]) -> tuple[tuple[Address, ...], Terms]:
    """Return how the options of a source reach its cluster; all others are passed over.

    Args:
        options: of ``esp`` or of Spark's Kafka source, by names in any case.

    Raises:
        OptionError: there are no servers.
        SettingError: the terms of security cannot be used.
    """
    lower = {name.lower(): value for name, value in options.items()}
    kafka = {name.removeprefix(_KAFKA): value for name, value in lower.items() if name.startswith(_KAFKA)}
    return parse_servers(_KAFKA + _SERVERS, kafka.get(_SERVERS)), Terms(
        security=read_security(kafka, _KAFKA), client_id=kafka.get("client.id", _CLIENT_ID)
    )


def _read_kafka(kafka: Mapping[str, str], given: Mapping[str, str]) -> tuple[Terms, FetchTerms, float]:
    for name, value in kafka.items():
        if name not in _KAFKA_SETTINGS and not is_security_setting(name):
            raise OptionError(
                _KAFKA + name,
                value,
                f"it has no effect on format esp: remove it. It knows {', '.join(_KAFKA + one for one in _KAFKA_SETTINGS)}",
            )
    numbers = {name: _kafka_number(kafka, name, default) for name, default in _NUMBERS.items()}
    isolation = kafka.get(_ISOLATION, "read_uncommitted").strip().lower()
    if isolation not in ("read_uncommitted", "read_committed"):
        raise OptionError(_KAFKA + _ISOLATION, isolation, "write read_uncommitted or read_committed")
    terms = Terms(
        security=read_security(kafka, _KAFKA),
        client_id=kafka.get("client.id", _CLIENT_ID),
        connect_timeout_s=numbers["socket.connection.setup.timeout.ms"] / 1000,
        request_timeout_s=numbers["request.timeout.ms"] / 1000,
    )
    fetch_terms = FetchTerms(
        max_bytes=numbers["fetch.max.bytes"],
        partition_max_bytes=numbers["max.partition.fetch.bytes"],
        min_bytes=numbers["fetch.min.bytes"],
        max_wait_ms=min(numbers["fetch.max.wait.ms"], numbers["request.timeout.ms"] // 2),
        is_read_committed=isolation == "read_committed",
        checks_crcs=_flag(kafka, "check.crcs", default=True, prefix=_KAFKA),
        fails_on_loss=_flag(given, "failOnDataLoss", default=True),
        stall_s=(_number(given, "kafkaConsumer.pollTimeoutMs") or _POLL_TIMEOUT_MS) / 1000,
        backoff_s=numbers["retry.backoff.ms"] / 1000,
        loss_remedy="set failOnDataLoss=false to go on without",
    )
    return terms, fetch_terms, numbers["default.api.timeout.ms"] / 1000


def _topics(text: str) -> tuple[str, ...]:
    topics = tuple(dict.fromkeys(filter(None, map(str.strip, text.split(",")))))
    if not topics:
        raise OptionError("subscribe", text, "it names no topic: write names, with commas between them")
    return topics


def _pattern(text: str) -> str:
    if not text.strip():
        raise OptionError("subscribePattern", text, "it is empty: write a regular expression")
    try:
        re.compile(text)
    except re.error as error:
        raise OptionError(
            "subscribePattern", text, f"it is no regular expression of Python ({error}): correct it"
        ) from error
    return text


def _start(given: Mapping[str, str], kind: Kind) -> Edge:
    edge = _edge(given, "starting")
    if edge is None:
        if kind is Kind.STREAM:  # as in Spark's Kafka source
            return Edge("startingOffsets", "latest", everywhere=LATEST)
        return Edge("startingOffsets", "earliest", everywhere=EARLIEST)
    if kind is Kind.BATCH and _names(edge, LATEST):
        raise OptionError(
            edge.option,
            edge.value,
            "a batch cannot begin at the latest offset (latest, -1), it would read nothing: write another offset",
        )
    return edge


def _end(given: Mapping[str, str], kind: Kind) -> Edge | None:
    edge = _edge(given, "ending")
    if edge is None:
        return None if kind is Kind.STREAM else Edge("endingOffsets", "latest", everywhere=LATEST)
    if _names(edge, EARLIEST):
        what = "stream" if kind is Kind.STREAM else "batch"
        raise OptionError(
            edge.option,
            edge.value,
            f"a {what} cannot end at the earliest offset (earliest, -2), it would read nothing: write another offset",
        )
    return edge


def _names(edge: Edge, word: int) -> bool:
    """True if an edge is, in some partition, the earliest or the latest offset."""
    return edge.everywhere == word or (edge.offsets is not None and word in edge.offsets.values())


def _edge(given: Mapping[str, str], side: str) -> Edge | None:
    """The options of a side by their rank: a timestamp for all partitions, timestamps by partition, offsets."""
    name = f"{side}Timestamp"
    if name in given:
        return Edge(
            name, given[name], timestamp=parse_integer(name, given[name], 0, _LONG_MOST, "milliseconds since 1970")
        )
    name = f"{side}OffsetsByTimestamp"
    if name in given:
        return Edge(name, given[name], timestamps=parse_offsets(name, given[name], least=0))
    name = f"{side}Offsets"
    if name not in given:
        return None
    text = given[name].strip()
    word = text.lower()
    if word in ("earliest", "latest"):
        return Edge(name, text, everywhere=EARLIEST if word == "earliest" else LATEST)
    return Edge(name, text, offsets=parse_offsets(name, text))


def _limits(given: Mapping[str, str]) -> Limits:
    least, most = _number(given, "minOffsetsPerTrigger"), _number(given, "maxOffsetsPerTrigger")
    if least is not None and most is not None and least > most:
        raise OptionError(
            "minOffsetsPerTrigger", least, f"it is more than maxOffsetsPerTrigger={most}: write {most} or less"
        )
    delay_ms = _duration(given, "maxTriggerDelay")
    if delay_ms is not None and least is None:
        raise OptionError(
            "maxTriggerDelay",
            given["maxTriggerDelay"],
            "it bounds the wait for minOffsetsPerTrigger, which is not given: add it, or remove this",
        )
    return Limits(
        min_offsets=least,
        max_delay_ms=_TRIGGER_DELAY_MS if delay_ms is None else delay_ms,
        max_offsets=most,
        max_bytes=_number(given, "maxBytesPerTrigger"),
        max_time_ms=_duration(given, "maxTimePerTrigger"),
    )


def _duration(given: Mapping[str, str], name: str) -> int | None:
    return parse_duration_ms(name, given[name]) if name in given else None


def _on_recreated(given: Mapping[str, str]) -> OnRecreated | None:
    name = "onTopicRecreated"
    return OnRecreated(_choice(given, name, tuple(one.value for one in OnRecreated))) if name in given else None


def _group(given: Mapping[str, str]) -> str | None:
    group = given.get("groupId")
    if group is not None and not group.strip():
        raise OptionError("groupId", group, "it is empty: write the name of a group, or remove it")
    return group


def _columns_and_values(given: Mapping[str, str], topics: Sequence[str] | None) -> tuple[tuple[str, ...], ValueOptions]:
    columns, values = _columns(given), parse_value_options(given, topics)
    if values.format is not ValueFormat.BINARY and "value" not in columns:
        raise OptionError(
            "valueFormat",
            given["valueFormat"],
            f"it makes columns in the place of value, which columns={','.join(columns)} lacks: add value there, or remove valueFormat",
        )
    return columns, values


def _columns(given: Mapping[str, str]) -> tuple[str, ...]:
    with_headers = _flag(given, "includeHeaders", default=False)
    text = given.get("columns")
    if text is None:
        return COLUMNS if with_headers else COLUMNS[:-1]
    by_lower = {name.lower(): name for name in COLUMNS}
    columns: list[str] = []
    for one in map(str.strip, text.split(",")):
        name = by_lower.get(one.lower())
        if name is None:
            raise OptionError("columns", text, f"there is no column {one!r}: write some of {', '.join(COLUMNS)}")
        if name in columns:
            raise OptionError("columns", text, f"it names {name} twice: name each once")
        columns.append(name)
    if with_headers and "headers" not in columns:
        raise OptionError(
            "columns",
            text,
            "includeHeaders is true and headers is not among them: add headers, or remove includeHeaders",
        )
    return tuple(columns)


def _flag(given: Mapping[str, str], name: str, *, default: bool, prefix: str = "") -> bool:
    text = given.get(name)
    if text is None:
        return default
    word = text.strip().lower()
    if word not in ("true", "false"):
        raise OptionError(prefix + name, text, "write true or false")
    return word == "true"


def _choice(given: Mapping[str, str], name: str, choices: Sequence[str]) -> str:
    text = given.get(name, choices[0])
    word = text.strip().lower()
    if word not in choices:
        raise OptionError(name, text, f"write {' or '.join(choices)}")
    return word


def _number(given: Mapping[str, str], name: str) -> int | None:
    text = given.get(name)
    return None if text is None else parse_integer(name, text, 1, _LONG_MOST, "1 or more")


def _kafka_number(kafka: Mapping[str, str], name: str, default: int) -> int:
    text = kafka.get(name)
    least = int(name in _NEVER_ZERO)
    return default if text is None else parse_integer(_KAFKA + name, text, least, _NUMBER_MOST, f"{least} or more")


def parse_integer(name: str, text: str, least: int, most: int, meaning: str) -> int:
    """Return the whole number that an option is.

    Args:
        name: the option.
        text: its value.
        least: the smallest number that is allowed.
        most: the largest.
        meaning: what is allowed, in words.

    Raises:
        OptionError: the text is another one.
    """
    stripped = text.strip()
    is_number = stripped.isascii() and stripped.isdecimal() and len(stripped) <= _DIGITS_MOST
    if not is_number or not least <= int(stripped) <= most:
        raise OptionError(name, text, f"write a whole number, {meaning}")
    return int(stripped)
