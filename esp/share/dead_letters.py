"""Dead letters (KIP-1191): records about the records of a share group that are rejected, or out of attempts.

A group names its dead-letter queue by ``errors.deadletterqueue.topic.name``. A letter names the origin of its record in headers; with
``errors.deadletterqueue.copy.record.enable`` it has the record's key, value and headers too. The letters of a partition go to the
queue's partition of the same number, modulo the number of its partitions.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple

from esp.model.errors import ErrorCode
from esp.model.ids import INTERNAL_TOPICS
from esp.records.builder import Headers, NewRecord, Record

HEADER_PREFIX: Final = "__dlq.errors."
"""Headers of this beginning are the letter's own. A record that has some of them already does not keep them: what they say of its origin
must be true."""

TOPIC_HEADER: Final = "__dlq.errors.topic"
PARTITION_HEADER: Final = "__dlq.errors.partition"
OFFSET_HEADER: Final = "__dlq.errors.offset"
GROUP_HEADER: Final = "__dlq.errors.group"
DELIVERY_COUNT_HEADER: Final = "__dlq.errors.delivery.count"
MESSAGE_HEADER: Final = "__dlq.errors.message"

REJECTED: Final = "Offset rejected by client."
"""The reason in the words of Kafka: a member has said that no attempt can help."""
EXHAUSTED: Final = "Offset delivery count exceeded the threshold."
"""The record is out of attempts."""


class DeadLetterSettings(NamedTuple):
    """The settings of a group that are about its dead-letter queue."""

    topic: str
    """``errors.deadletterqueue.topic.name``."""
    copies_records: bool
    """``errors.deadletterqueue.copy.record.enable``."""


class Death(NamedTuple):
    """The facts that a letter tells of its record."""

    topic: str
    partition: int
    offset: int
    group_id: str
    delivery_count: int
    is_rejected: bool


def build_letter(death: Death, record: Record | None, now_ms: int) -> NewRecord:
    """The letter about a record.

    Args:
        death: what is known of it.
        record: itself, if it is to be copied and is still there.
        now_ms: the wall time, from which on the queue's retention counts.
    """
    own = {
        TOPIC_HEADER: death.topic,
        PARTITION_HEADER: str(death.partition),
        OFFSET_HEADER: str(death.offset),
        GROUP_HEADER: death.group_id,
        DELIVERY_COUNT_HEADER: str(death.delivery_count),
        MESSAGE_HEADER: REJECTED if death.is_rejected else EXHAUSTED,
    }
    headers = tuple((name, text.encode()) for name, text in own.items())
    if record is None:
        return NewRecord(None, None, headers, now_ms)
    return NewRecord(record.value, record.key, (*without_letter_headers(record.headers), *headers), now_ms)


def without_letter_headers(headers: Headers) -> Headers:
    """The headers that a record had before a letter was written about it."""
    return tuple(header for header in headers if not header[0].startswith(HEADER_PREFIX))


def without_record(letter: NewRecord) -> NewRecord:
    """A letter without what it has of its record."""
    headers = tuple(header for header in letter.headers if header[0].startswith(HEADER_PREFIX))
    return letter._replace(key=None, value=None, headers=headers)


def read_death(headers: Headers) -> Death | None:
    """The facts that a letter tells; None for a record that is no letter."""
    own: Mapping[str, bytes | None] = dict(headers)
    try:
        texts = {name: (own[name] or b"").decode() for name in (TOPIC_HEADER, PARTITION_HEADER, OFFSET_HEADER)}
        count = (own.get(DELIVERY_COUNT_HEADER) or b"0").decode()
        return Death(
            texts[TOPIC_HEADER],
            int(texts[PARTITION_HEADER]),
            int(texts[OFFSET_HEADER]),
            (own.get(GROUP_HEADER) or b"").decode(),
            int(count),
            (own.get(MESSAGE_HEADER) or b"").decode() == REJECTED,
        )
    except (KeyError, ValueError):
        return None


class Destination(NamedTuple):
    """A group's dead-letter queue, as the cluster's metadata knows it."""

    topic: str
    partition_count: int
    """0 if there is no such topic."""
    allows_letters: bool
    """``errors.deadletterqueue.group.enable`` of the topic."""


def find_destination_problem(
    destination: Destination | None, origin_topic: str, prefix: str, *, may_create: bool
) -> str | None:
    """The reason for which no letter can be written there, in words for an operator; None if there is none.

    Args:
        destination: None for a group that has no dead-letter queue any more.
        origin_topic: the topic of the records.
        prefix: ``errors.deadletterqueue.topic.name.prefix`` of the node.
        may_create: ``errors.deadletterqueue.auto.create.topics.enable`` of the node.
    """
    if destination is None:
        return "the group has no errors.deadletterqueue.topic.name"
    topic = destination.topic
    if topic == origin_topic:
        return f"{topic} is the topic of the records themselves"
    if topic in INTERNAL_TOPICS or topic.startswith("__"):
        return f"{topic} is internal"
    if not topic.startswith(prefix):
        return f"{topic} does not begin with {prefix} (errors.deadletterqueue.topic.name.prefix)"
    if not destination.partition_count:
        return None if may_create else f"there is no topic {topic}"
    if not destination.allows_letters:
        return f"{topic} does not have errors.deadletterqueue.group.enable=true"
    return None


class Fate(Enum):
    """The fate of letters that were sent."""

    WRITTEN = "written"
    AGAIN = "again"
    """They may be written another time."""
    TOO_LARGE = "too large"
    """They may be, if there are fewer or smaller ones."""
    REFUSED = "refused"
    """They never will be as they are."""


_REFUSED: Final = frozenset(
    (
        ErrorCode.invalid_record,
        ErrorCode.unsupported_for_message_format,
        ErrorCode.policy_violation,
        ErrorCode.invalid_topic_exception,
    )
)
_TOO_LARGE: Final = frozenset((ErrorCode.message_too_large, ErrorCode.record_list_too_large))


def fate_of(error: ErrorCode) -> Fate:
    """The meaning of the answer of the queue's leader. What an operator or time may repair is worth another attempt, and so is what broke
    on its way (CORRUPT_MESSAGE).
    """
    if error is ErrorCode.none:
        return Fate.WRITTEN
    if error in _TOO_LARGE:
        return Fate.TOO_LARGE
    return Fate.REFUSED if error in _REFUSED else Fate.AGAIN
