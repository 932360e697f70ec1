"""``python -m benchmarks.groups.turns``: how long the loop is held by one group of 1,000 members and 10,000 partitions (KIP-848).

It drives a coordinator in this process, as a node's driver does, on a log that takes everything at once. A turn is one call of the core
and all that follows from it before other work has its turn: records built into batches, their commit, answers encoded. Phases are measured
one by one: members join in a burst, become stable, a quarter of them changes its subscription, half of them leave in a burst, the rest is
silent until its sessions end; and another coordinator loads the group from its log.
"""

import asyncio
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Final, NamedTuple, cast

import typer

from benchmarks.command import new_console
from esp.broker.apis.consumer_group_heartbeat import AT_ONCE_PARTITIONS, _response
from esp.broker.coordination.driver import replay_in_slices
from esp.broker.coordination.latest_records import LatestRecords
from esp.broker.groups.config import coordinator_settings
from esp.groups.consumer.assignors import AssignedTopic
from esp.groups.consumer.topics import KnownTopic, compile_expression, match_names
from esp.groups.coordinator import GroupCoordinator
from esp.groups.effects import Answer, Append, Effect
from esp.groups.requests import JOIN_EPOCH, LEAVE_EPOCH, ConsumerGroupHeartbeat
from esp.groups.responses import ConsumerGroupHeartbeatResult
from esp.model.errors import ErrorCode
from esp.model.ids import TopicId
from esp.model.now import Now
from esp.protocol.messages import encode_response
from esp.protocol.registry import ApiKey
from esp.records.builder import NewRecord, build_batch
from esp.runtime.env import SystemRandom
from esp.runtime.interpreter import shorten_pauses, spare_what_exists
from esp.schemas.consumer_group_records import TopicIdPartition
from esp.settings.broker import BrokerSettings

MEMBERS: Final = 1_000
PARTITIONS: Final = 10_000
LIMIT_MS: Final = 20.0
"""The longest turn, in ms, with which the measurement passes."""

_GROUP: Final = "group"
_RACKS: Final = ("a", "b", "c")
_HEARTBEAT_MS: Final = 1_000
_ROUNDS_MAX: Final = 60
"""Rounds of heartbeats in which a group must have become stable."""

_SLICES_BETWEEN: Final = 4
"""Slices of long work between two requests."""


class Turn(NamedTuple):
    """The time of a turn, or at which it began."""

    wall_ms: float
    cpu_ms: float
    """The CPU time of this thread: other work of the machine is not in it."""

    @classmethod
    def begin(cls) -> "Turn":
        """A turn begins."""
        return cls(time.perf_counter() * 1_000, time.thread_time() * 1_000)

    def end(self) -> "Turn":
        """The turn that began then ends now."""
        now = self.begin()
        return Turn(now.wall_ms - self.wall_ms, now.cpu_ms - self.cpu_ms)


class _Catalog:
    """See :class:`esp.groups.consumer.topics.TopicCatalog`.

    Args:
        topics: the number of topics among which the partitions are divided.
        racks: the racks of replicas.
    """

    version = 1
    offset = 1

    def __init__(self, topics: int, racks: Sequence[str]) -> None:
        self._topics: dict[str, KnownTopic] = {}
        for number in range(topics):
            of_partitions = tuple(
                frozenset((racks[place % len(racks)],)) if racks else frozenset[str]()
                for place in range(PARTITIONS // topics)
            )
            topic = AssignedTopic(TopicId(uuid.uuid5(uuid.NAMESPACE_OID, str(number))), of_partitions)
            self._topics[f"topic-{number:04}"] = KnownTopic(topic, topic.topic_id.bytes)

    @property
    def names(self) -> list[str]:
        """All topics, in order."""
        return list(self._topics)

    def find(self, name: str) -> KnownTopic | None:
        """The topic of this name."""
        return self._topics.get(name)

    def matching(self, regex: str) -> Sequence[str]:
        """The names that an expression matches."""
        return match_names(compile_expression(regex), self._topics)

    def hold_groups(self, _name: str) -> Sequence[str]:
        """None."""
        return ()

    def group_configs(self, _group_id: str) -> Mapping[str, str]:
        """None."""
        return {}


class _Member:
    """A member as its client sees itself, which gives partitions back at once.

    Args:
        number: distinguishes it.
        subscription: the fields of its first heartbeat.
    """

    def __init__(self, number: int, subscription: Mapping[str, Any]) -> None:
        self.subscription = subscription
        self._id = str(uuid.uuid5(uuid.NAMESPACE_URL, str(number)))
        self._epoch = JOIN_EPOCH
        self._owned: frozenset[TopicIdPartition] = frozenset()
        self._has_news = True

    def heartbeat(self, **more: Any) -> ConsumerGroupHeartbeat:
        """The next heartbeat."""
        if self._epoch == JOIN_EPOCH:
            more |= {"rebalance_timeout_ms": 300_000, **self.subscription}
        owned = self._owned if self._has_news else None
        self._has_news = False
        fields: dict[str, Any] = {"member_epoch": self._epoch, "owned": owned, **more}
        return ConsumerGroupHeartbeat(
            group_id=_GROUP, member_id=self._id, client_id="client", client_host="/127.0.0.1", **fields
        )

    def take(self, answer: ConsumerGroupHeartbeatResult) -> None:
        """Do as it is told."""
        assert answer.error is ErrorCode.none, answer
        self._epoch = answer.member_epoch
        if answer.assignment is not None:
            self._owned, self._has_news = answer.assignment, True


class _Driven:
    """A coordinator whose turns are measured."""

    def __init__(self, catalog: _Catalog) -> None:
        settings = coordinator_settings(BrokerSettings())
        self.core = GroupCoordinator(settings, SystemRandom(), catalog)
        self.log: list[NewRecord] = []
        self.turns: list[Turn] = []
        self._answers: dict[object, ConsumerGroupHeartbeatResult] = {}
        self._now_ms = 1_700_000_000_000

    @property
    def now(self) -> Now:
        """The time, which goes on by :meth:`sleep` alone."""
        return Now(self._now_ms * 1_000, self._now_ms)

    def turn(self, call: Callable[[], list[Effect]]) -> None:
        """Do a call and all that follows from it."""
        turn = Turn.begin()
        effects = call()
        while effects:
            effect = effects.pop(0)
            if isinstance(effect, Append):
                build_batch(effect.records, timestamp_ms=effect.timestamp_ms)
                self.log += effect.records
                effects += self.core.on_committed(effect.token, self.now)
            elif isinstance(effect, Answer):
                result = cast("ConsumerGroupHeartbeatResult", effect.result)
                self._answers[effect.ticket] = result
                if len(result.assignment or ()) <= AT_ONCE_PARTITIONS:  # others are sent in slices
                    encode_response(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, 0, _response(result))
        self.turns.append(turn.end())

    def ask(self, member: _Member, **more: Any) -> None:
        """Let a member send a heartbeat, and take the answer."""
        request, ticket = member.heartbeat(**more), object()
        self.turn(lambda: self.core.consumer_group_heartbeat(request, ticket, self.now))
        answer = self._answers.pop(ticket)
        if request.member_epoch != LEAVE_EPOCH:
            member.take(answer)
        self.work(_SLICES_BETWEEN)

    def work(self, most: int = 10_000_000) -> None:
        """Do long work, so many slices at most."""
        while most and getattr(self.core, "has_work", False):
            self.turn(lambda: self.core.work(self.now))
            most -= 1

    def sleep(self, ms: int) -> None:
        """Let time pass."""
        self._now_ms += ms
        while (due_us := self.core.next_deadline_us) is not None and due_us <= self.now.monotonic_us:
            self.turn(lambda: self.core.on_time(self.now))
            self.work(_SLICES_BETWEEN)
        self.work()

    def settle(self, members: Sequence[_Member]) -> None:
        """Let members send heartbeats until the group is stable."""
        for _ in range(_ROUNDS_MAX):
            for member in members:
                self.ask(member)
            self.sleep(_HEARTBEAT_MS)
            if self.core.describe_consumer_group(_GROUP).state == "Stable":
                return
        raise AssertionError("the group is not stable")


class _Pauses:
    """Ends a turn when the loader lets others go on."""

    def __init__(self) -> None:
        self.turns: list[Turn] = []
        self._turn = Turn.begin()

    async def pause(self) -> None:
        """The turn is over."""
        self.turns.append(self._turn.end())
        self._turn = Turn.begin()


def load(log: Sequence[NewRecord], catalog: _Catalog) -> list[Turn]:
    """Load a coordinator from a log; return the times of the turns."""
    latest = LatestRecords()
    for record in log:
        assert record.key is not None
        latest.by_key.pop(bytes(record.key), None)
        if record.value is not None:
            latest.by_key[bytes(record.key)] = bytes(record.value)
    driven, pauses = _Driven(catalog), _Pauses()
    asyncio.run(replay_in_slices(driven.core, latest, pauses.pause))
    asyncio.run(pauses.pause())
    driven.turn(lambda: driven.core.begin(driven.now))
    driven.work()
    return pauses.turns + driven.turns


Subscriptions = Callable[[_Catalog, int], Mapping[str, Any]]
"""The subscription of the member of a number."""


def _alike(catalog: _Catalog, _number: int) -> Mapping[str, Any]:
    return {"topic_names": tuple(catalog.names), "owned": frozenset()}


def _range(catalog: _Catalog, number: int) -> Mapping[str, Any]:
    return {**_alike(catalog, number), "assignor": "range"}


def _of_four(catalog: _Catalog, number: int) -> Mapping[str, Any]:
    first = 2 * (number % 4)
    return {"topic_names": tuple(catalog.names[first : first + 4]), "owned": frozenset()}


def _regex(_catalog: _Catalog, number: int) -> Mapping[str, Any]:
    first = 2 * (number % 4)
    return {"topic_regex": f"topic-..?[{first}-{first + 3}].", "owned": frozenset()}


def _in_rack(catalog: _Catalog, number: int) -> Mapping[str, Any]:
    return {**_alike(catalog, number), "rack_id": _RACKS[number % len(_RACKS)]}


KINDS: Final[Mapping[str, tuple[int, Sequence[str], Subscriptions]]] = {
    "one subscription": (10, (), _alike),
    "range": (10, (), _range),
    "four subscriptions": (10, (), _of_four),
    "regexes": (1_000, (), _regex),
    "racks": (10, _RACKS, _in_rack),
}
"""The number of topics, the racks of replicas, and the subscriptions of members, by kind of group."""


def phases(kind: str) -> Iterator[tuple[str, list[Turn]]]:
    """Do all phases; yields the name of each and its turns."""
    topics, racks, subscription = KINDS[kind]
    catalog = _Catalog(topics, racks)
    driven = _Driven(catalog)
    members = [_Member(number, subscription(catalog, number)) for number in range(MEMBERS)]

    def taken() -> list[Turn]:
        turns, driven.turns = driven.turns, []
        return turns

    driven.turn(lambda: driven.core.begin(driven.now))
    taken()
    driven.ask(members[0])
    driven.sleep(_HEARTBEAT_MS)
    driven.settle(members[:1])
    yield "the first is alone", taken()
    for member in members[1:]:
        driven.ask(member)
    yield "join", taken()
    driven.settle(members)
    yield "settle", taken()
    yield "load", load(driven.log, catalog)
    for number, member in enumerate(members[: MEMBERS // 4]):
        changed = subscription(catalog, number + 1)
        driven.ask(member, **{name: value for name, value in changed.items() if name.startswith("topic")})
    driven.settle(members)
    yield "change", taken()
    for member in members[: MEMBERS // 2]:
        driven.ask(member, member_epoch=LEAVE_EPOCH)
    yield "leave", taken()
    driven.settle(members[MEMBERS // 2 :])
    yield "settle again", taken()
    driven.sleep(100_000)
    yield "expire", taken()


def main(
    kinds: Annotated[
        list[str] | None, typer.Argument(help=f"Kinds of groups: {', '.join(KINDS)}; all without one.")
    ] = None,
) -> None:
    """Print the longest turn of each phase, for each kind of group."""
    compile_expression("")  # the library of expressions is loaded: a node looks for their topics in threads
    shorten_pauses()
    spare_what_exists()
    console = new_console()
    for kind in kinds or KINDS:
        for phase, turns in phases(kind):
            late = sum(turn.wall_ms > LIMIT_MS for turn in turns)
            console.print(
                f"{kind:20} {phase:20} longest turn {max(turn.wall_ms for turn in turns):7.1f} ms wall, "
                f"{max(turn.cpu_ms for turn in turns):7.1f} ms CPU, {late:5} of {len(turns):6} over {LIMIT_MS:.0f} ms, "
                f"all {sum(turn.cpu_ms for turn in turns) / 1_000:4.1f} s CPU"
            )


if __name__ == "__main__":
    typer.run(main)
