"""The topics of the cluster as consumer groups see them, and the regular expressions by which members name them.

A change of a topic that concerns its assignment, of its partitions and of the racks of their replicas, shows in the topic's digest, and in
the hash of a group that is subscribed to it.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from esp.groups.consumer.assignors import AssignedTopic
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import INTERNAL_TOPICS
from esp.schemas.consumer_group_records import NO_METADATA_HASH

_INTERNAL_PREFIX: Final = "__"


class KnownTopic(NamedTuple):
    """A topic that exists."""

    topic: AssignedTopic
    digest: bytes
    """It differs where anything differs that an assignment rests on."""


class TopicCatalog(Protocol):
    """The topics that there are, and the settings that single groups have, whether or not they exist."""

    @property
    def version(self) -> int:
        """Rises with every change of topics that concerns their assignment; it begins anew with each process."""

    @property
    def offset(self) -> int:
        """The offset of the metadata that they are from."""

    def find(self, name: str) -> KnownTopic | None:
        """The topic of this name."""

    def matching(self, regex: str) -> Sequence[str] | None:
        """The names of the topics that a regular expression matches as a whole, in order; None: they are being looked for.

        Raises:
            ApiError: INVALID_REGULAR_EXPRESSION.
        """

    def hold_groups(self, name: str) -> Sequence[str]:
        """The groups that hold the records of a topic against retention: names and patterns; none if there is no such topic."""

    def group_configs(self, group_id: str) -> Mapping[str, str]:
        """The settings of a group, as they were given to it."""


def hash_topics(catalog: TopicCatalog, names: Iterable[str]) -> int:
    """The hash of these topics, those that exist; only equality counts.

    Args:
        catalog: the topics that there are.
        names: each once.
    """
    digest = hashlib.blake2b(digest_size=8)
    is_empty = True
    for name in sorted(names):
        known = catalog.find(name)
        if known is not None:
            digest.update(known.digest)
            is_empty = False
    return NO_METADATA_HASH if is_empty else int.from_bytes(digest.digest(), "big", signed=True)


def resolve(regex: str, catalog: TopicCatalog, may_describe: Callable[[str], bool]) -> tuple[str, ...] | None:
    """The names of the topics that a regular expression means, in order; None: they are being looked for.

    Internal topics are meant only by an expression that begins with their prefix: consumers that read everything do not mean them.

    Args:
        regex: RE2's syntax, in which no expression takes long for one name.
        catalog: the topics that there are.
        may_describe: whether the client may know of a topic.

    Raises:
        ApiError: INVALID_REGULAR_EXPRESSION.
    """
    matching = catalog.matching(regex)
    if matching is None:
        return None
    names_internal = regex.startswith(_INTERNAL_PREFIX)
    return tuple(name for name in matching if (names_internal or name not in INTERNAL_TOPICS) and may_describe(name))


def match_names(pattern: Any, names: Iterable[str]) -> list[str]:
    """The names among these that a compiled expression matches as a whole."""
    return [name for name in names if pattern.fullmatch(name) is not None]


def compile_expression(regex: str) -> Any:
    """The compiled expression.

    Raises:
        ApiError: INVALID_REGULAR_EXPRESSION.
    """
    from esp.model.linear_regex import compile_linear  # noqa: PLC0415 - most nodes see no expression, and do without the library

    try:
        return compile_linear(regex)
    except ValueError as error:
        raise ApiError(
            ErrorCode.invalid_regular_expression,
            f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {error}.",
        ) from error
