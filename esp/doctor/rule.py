"""The rules of the doctor, and their findings."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from shlex import quote
from typing import NamedTuple

from esp.doctor.snapshot import Snapshot
from esp.model.ids import NodeId, TopicPartition


class Severity(Enum):
    """The weight of a finding. The order of definition is from worst to least."""

    ERROR = "error"
    """Something does not work now, or the next failure stops it or loses records that are acknowledged."""
    WARNING = "warning"
    """Everything works, with less room for failure or for load than there could be."""
    NOTE = "note"
    """Worth knowing; nothing has to be done."""

    def is_at_least(self, other: "Severity") -> bool:
        """True if this is as bad, or worse."""
        order = list(Severity)
        return order.index(self) <= order.index(other)


class PlaceKind(Enum):
    """The kinds of places."""

    CLUSTER = "cluster"
    BROKER = "broker"
    VOTER = "voter"
    TOPIC = "topic"
    PARTITION = "partition"
    CLIENT = "client"


class Place(NamedTuple):
    """The place of a finding. ``name`` is an id, or a name; empty for the cluster."""

    kind: PlaceKind
    name: str = ""

    def __str__(self) -> str:
        if self.kind is PlaceKind.PARTITION:
            return self.name
        return f"{self.kind.value} {self.name}".rstrip()


class Hit(NamedTuple):
    """One place where a rule finds something."""

    place: Place
    detail: str
    """The finding, with the figures."""
    remedy: str
    """The remedy. Commands stand in backticks, complete but for the bootstrap servers."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One kind of defect."""

    name: str
    """Lower case with hyphens; it never changes, so that scripts may name it."""
    severity: Severity
    title: str
    """The defect, without figures."""
    why: str
    """Why it matters, in a line."""
    remedy: str
    """The remedy, with words in capitals where a hit has names."""
    check: Callable[[Snapshot], Iterable[Hit]]


@dataclass(frozen=True, slots=True)
class Finding:
    """The hits of a rule; one at least."""

    rule: Rule
    hits: tuple[Hit, ...]


CLUSTER = Place(PlaceKind.CLUSTER)


def at_broker(node: NodeId) -> Place:
    """A broker."""
    return Place(PlaceKind.BROKER, str(node))


def at_topic(topic: str) -> Place:
    """A topic."""
    return Place(PlaceKind.TOPIC, topic)


def at_partition(partition: TopicPartition) -> Place:
    """A partition."""
    return Place(PlaceKind.PARTITION, str(partition))


def shell_word(name: str) -> str:
    """Return a name as one word for a shell, in a command that is ready to paste: clients choose the names of groups and users.

    A name with a backtick, which ends a command in :attr:`Hit.remedy`, or with characters that a terminal would act upon is written by
    escapes of its bytes, as bash, zsh and ksh read them.
    """
    if name.isprintable() and "`" not in name:
        return quote(name)
    return "$'" + "".join(f"\\x{byte:02x}" for byte in name.encode()) + "'"


def numbers(nodes: Iterable[NodeId]) -> str:
    """Ids as people read them; ``none`` if there are none."""
    return ", ".join(map(str, nodes)) or "none"
