"""Requests that name very many things, in parts: each part is a request of its own kind, and their answers are put together.

Most APIs are lists of questions that do not depend on one another. :data:`PARTS` says where in a request the list is, and where in the
answer; lists may be nested, as partitions in topics are. What an API does about things that are named twice it does within a part. APIs
that are not listed must be answered as a whole, or cost little for each thing that is named.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from esp.model.errors import ErrorCode
from esp.protocol.registry import ApiKey

LOOKUPS: Final = 8
"""Elements of a part that are looked up in memory: a tenth of a millisecond on a slow machine."""

CHANGES: Final = 10
"""Elements of a part that others are asked about, or that are written down together: a part costs a round to the controller, or a write."""

COMMITS: Final = 128
"""Offsets of a part that are committed together: a consumer has seldom more, and its commit should be there whole or not at all."""

STATES: Final = 128
"""Share partitions of a part whose states change together: brokers ask about no more at a time."""


class Lists(NamedTuple):
    """The place of the elements: the names of the fields from the outermost list to the innermost.

    The innermost lists of request and answer correspond, as do the lists around them; either may have further ones around these.
    """

    asked: tuple[str, ...]
    answered: tuple[str, ...]
    size: int = LOOKUPS
    """Elements of a part."""


class Part(NamedTuple):
    """A request with some of another one's elements."""

    message: Any
    continued: int
    """The number of lists around the elements that continue those of the part before: its first topic is that one's last, say."""


_TOPICS_AND_PARTITIONS: Final = (("topics", "partitions"), ("topics", "partitions"))
_SHARE_PARTITIONS: Final = (("topics", "partitions"), ("results", "partitions"))

PARTS: Final[Mapping[int, tuple[Lists, ...]]] = MappingProxyType(
    {
        ApiKey.LIST_OFFSETS: (Lists(*_TOPICS_AND_PARTITIONS),),
        ApiKey.METADATA: (Lists(("topics",), ("topics",)),),
        ApiKey.OFFSET_COMMIT: (Lists(*_TOPICS_AND_PARTITIONS, COMMITS),),
        ApiKey.OFFSET_FETCH: (
            Lists(("groups", "topics", "partition_indexes"), ("groups", "topics", "partitions")),
            Lists(("topics", "partition_indexes"), ("groups", "topics", "partitions")),
        ),
        ApiKey.FIND_COORDINATOR: (Lists(("coordinator_keys",), ("coordinators",)),),
        ApiKey.LEAVE_GROUP: (Lists(("members",), ("members",)),),
        ApiKey.DESCRIBE_GROUPS: (Lists(("groups",), ("groups",)),),
        ApiKey.CREATE_TOPICS: (Lists(("topics",), ("topics",), CHANGES),),
        ApiKey.DELETE_TOPICS: (
            Lists(("topics",), ("responses",), CHANGES),
            Lists(("topic_names",), ("responses",), CHANGES),
        ),
        ApiKey.DELETE_RECORDS: (Lists(*_TOPICS_AND_PARTITIONS, CHANGES),),
        ApiKey.OFFSET_FOR_LEADER_EPOCH: (Lists(*_TOPICS_AND_PARTITIONS),),
        ApiKey.WRITE_TXN_MARKERS: (
            Lists(("markers", "topics", "partition_indexes"), ("markers", "topics", "partitions"), COMMITS),
        ),
        ApiKey.TXN_OFFSET_COMMIT: (Lists(*_TOPICS_AND_PARTITIONS, COMMITS),),
        ApiKey.DESCRIBE_CONFIGS: (Lists(("resources",), ("results",), 1),),
        ApiKey.ALTER_CONFIGS: (Lists(("resources",), ("responses",), CHANGES),),
        ApiKey.ALTER_REPLICA_LOG_DIRS: (Lists(("dirs", "topics", "partitions"), ("results", "partitions")),),
        ApiKey.CREATE_PARTITIONS: (Lists(("topics",), ("results",), CHANGES),),
        ApiKey.CONSUMER_GROUP_DESCRIBE: (Lists(("group_ids",), ("groups",)),),
        ApiKey.SHARE_GROUP_DESCRIBE: (Lists(("group_ids",), ("groups",)),),
        ApiKey.DELETE_GROUPS: (Lists(("groups_names",), ("results",)),),
        ApiKey.ELECT_LEADERS: (
            Lists(("topic_partitions", "partitions"), ("replica_election_results", "partition_result"), CHANGES),
        ),
        ApiKey.INCREMENTAL_ALTER_CONFIGS: (Lists(("resources",), ("responses",), CHANGES),),
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: (Lists(("topics", "partitions"), ("responses", "partitions"), CHANGES),),
        ApiKey.LIST_PARTITION_REASSIGNMENTS: (Lists(("topics",), ("topics",), CHANGES),),
        ApiKey.OFFSET_DELETE: (Lists(*_TOPICS_AND_PARTITIONS, CHANGES),),
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: (Lists(("users",), ("results",)),),
        ApiKey.DESCRIBE_QUORUM: (Lists(*_TOPICS_AND_PARTITIONS, CHANGES),),
        ApiKey.DESCRIBE_PRODUCERS: (Lists(("topics", "partition_indexes"), ("topics", "partitions")),),
        ApiKey.ADD_PARTITIONS_TO_TXN: (Lists(("transactions",), ("results_by_transaction",), COMMITS),),
        ApiKey.DESCRIBE_TRANSACTIONS: (Lists(("transactional_ids",), ("transaction_states",)),),
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: (
            Lists(("groups", "topics", "partitions"), ("groups", "topics", "partitions"), STATES),
        ),
        ApiKey.ALTER_SHARE_GROUP_OFFSETS: (Lists(("topics", "partitions"), ("responses", "partitions"), STATES),),
        ApiKey.DELETE_SHARE_GROUP_OFFSETS: (Lists(("topics",), ("responses",), CHANGES),),
        ApiKey.INITIALIZE_SHARE_GROUP_STATE: (Lists(*_SHARE_PARTITIONS, STATES),),
        ApiKey.READ_SHARE_GROUP_STATE: (Lists(*_SHARE_PARTITIONS),),
        ApiKey.WRITE_SHARE_GROUP_STATE: (Lists(*_SHARE_PARTITIONS, STATES),),
        ApiKey.DELETE_SHARE_GROUP_STATE: (Lists(*_SHARE_PARTITIONS, STATES),),
        ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: (Lists(*_SHARE_PARTITIONS),),
    }
)


def lists_of(api_key: int, message: Any) -> Lists | None:
    """The place of a request's elements, or None if it is answered as a whole."""
    for lists in PARTS.get(api_key, ()):
        if hasattr(message, lists.asked[0]):
            return lists
    return None


def split(message: Any, lists: Lists) -> Iterator[Part]:
    """The parts of a request, in order; itself, if it has no element."""
    outermost, *inner = lists.asked
    elements = getattr(message, outermost)
    if not elements:
        yield Part(message, 0)
        return
    for piece, continued in _cut(elements, tuple(inner), lists.size):
        yield Part(dataclasses.replace(message, **{outermost: piece}), continued)


class JoinedAnswer:
    """The answers to the parts of one request, put together as they come.

    Args:
        lists: where the elements are.
    """

    def __init__(self, lists: Lists) -> None:
        self._lists = lists
        self._answer: Any = None
        self._elements: list[Any] = []

    def add(self, part: Part, answer: Any) -> bool:
        """Take the answer to the next part; whether further ones make sense, which they do not if this part was refused as a whole."""
        lists = self._lists
        if dataclasses.is_dataclass(answer) and getattr(answer, "error_code", ErrorCode.none) is not ErrorCode.none:
            self._answer = answer
            self._elements = list(getattr(answer, lists.answered[0], ()))
            return False
        elements = getattr(answer, lists.answered[0])
        is_first, self._answer = self._answer is None, answer
        more = 0 if is_first else len(lists.answered) - len(lists.asked)
        continued = min(max(0, part.continued + more), len(lists.answered) - 1)
        _extend(self._elements, elements, lists.answered[1:], continued)
        return True

    def result(self) -> Any:
        """The whole answer."""
        return with_elements(self._answer, self._lists.answered[0], self._elements)


def _cut(elements: Sequence[Any], inner: tuple[str, ...], size: int) -> Iterator[tuple[tuple[Any, ...], int]]:
    """Pieces with ``size`` innermost elements at most, each with its number of continued lists."""
    gathered: list[Any] = []
    room, continued = size, 0
    for element in elements:
        below = getattr(element, inner[0]) if inner else None
        if not below:  # innermost, or about everything below it, or nothing
            pieces: Iterator[tuple[Any, int, int]] = iter(((element, 0, 1),))
        else:
            pieces = (
                (dataclasses.replace(element, **{inner[0]: piece}), depth, _count(piece, inner[1:]))
                for piece, depth in _cut(below, inner[1:], size)
            )
        for number, (piece, depth, count) in enumerate(pieces):
            if gathered and (count > room or number):
                yield tuple(gathered), continued
                gathered, room, continued = [], size, 1 + depth if number else 0
            gathered.append(piece)
            room -= count
    yield tuple(gathered), continued


def _count(elements: Sequence[Any], inner: tuple[str, ...]) -> int:
    if not inner:
        return len(elements)
    return sum(_count(getattr(element, inner[0]) or (None,), inner[1:]) if inner else 1 for element in elements)


def _extend(elements: list[Any], more: Sequence[Any], inner: tuple[str, ...], continued: int) -> None:
    """Append ``more``, whose first element goes on with the last one that is there if lists are continued."""
    if continued and elements and more:
        name = inner[0]
        below = getattr(elements[-1], name)
        if not isinstance(below, list):
            below = list(below)
            elements[-1] = with_elements(elements[-1], name, below)
        _extend(below, getattr(more[0], name), inner[1:], continued - 1)
        more = more[1:]
    elements.extend(more)


def with_elements(answer: Any, name: str, value: Sequence[Any]) -> Any:
    """An answer with another list of the name ``name``."""
    if isinstance(answer, tuple):
        return answer._replace(**{name: value})  # type: ignore[attr-defined]  # a named tuple stands for classes of several versions
    return dataclasses.replace(answer, **{name: value})
