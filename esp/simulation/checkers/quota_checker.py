"""Holds the time for which metered clients were to wait against the quotas that were in force at the node that said it (INV-QUOTA).

Times are those of the client: a request that left after one moment and was answered before another was handled between the two. So of what
a node has counted in its windows some is certain, and with it the least time for which it must have a client wait. Quotas are those of the
images that the node published; each change lets muted connections go on, so only what was sent between two changes is looked at. Changes
are made by one client, and of an entity only while the outcome of the change before is known: an acknowledged change is in force at the
node that answered, and in the end.
"""

from collections.abc import Callable, Set
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from esp.broker.raft.loader import MetadataLoader
from esp.controller.image import ClusterDelta, ClusterImage
from esp.model.client_quotas import PRODUCER_BYTE_RATE, QuotaEntity, client_alone, user_and_client
from esp.simulation.checkers import probe
from esp.simulation.checkers.violation import ViolationError
from esp.simulation.excuses import Excuse, note
from esp.simulation.nodes_tier.node import SimulatedNode

USER: Final = "ANONYMOUS"
"""All simulated clients: no listener authenticates them."""

WINDOWS_S: Final = 11
"""The time of all windows over which a node measures: what it has counted counts for so long."""

FORGIVEN_S: Final = WINDOWS_S + 1
"""The longest time over which a rate is taken, and for which a client need not wait: the oldest sample may have begun a window earlier."""

ROUNDING_S: Final = 0.002
"""Nodes count in whole milliseconds."""

_INVARIANT: Final = "INV-QUOTA"
_KEPT: Final = 200
"""Requests since a change that are looked at."""


class Sent(NamedTuple):
    """A request of a metered client that was answered.

    ``connection`` is a number that no other connection has.
    """

    client_id: str
    connection: int
    sent_s: float
    answered_s: float
    size: int
    throttle_ms: int


class Look(NamedTuple):
    """The client ids that a node said it held, when it was asked and when it had answered."""

    client_ids: Set[str]
    asked_s: float
    answered_s: float


@dataclass(slots=True)
class Feed:
    """The quotas that one process of a node has published last, the time of their last change, and the requests since then."""

    loader: MetadataLoader
    now_s: Callable[[], float]
    image: ClusterImage = field(default_factory=ClusterImage)
    changed_s: float = -1.0
    sent: dict[str, list[Sent]] = field(default_factory=dict)
    untold: dict[int, str] = field(default_factory=dict)
    """By connection, what is wrong if it still was there when the node did not say that it held its client."""

    def on_image(self, image: ClusterImage, delta: ClusterDelta) -> None:
        """Begin again with every change."""
        self.image = image
        if delta.has_other_quotas:
            self.changed_s = self.now_s()
            self.sent.clear()
            self.untold.clear()


class QuotaChecker:
    """Judges the use that nodes allowed, and holds acknowledged changes of quotas against the metadata.

    Args:
        now_s: returns the time.
        clock_rate: that of the fastest clock of a node, in whose seconds quotas and throttle times are.
    """

    def __init__(self, now_s: Callable[[], float], clock_rate: float = 1.0) -> None:
        self._clock_rate = clock_rate
        self.judged = 0
        """Requests that were held against a quota."""
        self.throttled = 0
        """Requests whose clients were throttled."""
        self.told_held = 0
        """Clients that were to wait, and that their node said it held."""
        self._now_s = now_s
        self._feeds: dict[int, Feed] = {}
        self._known: dict[QuotaEntity, float | None] = {}

    def feed_of(self, node: SimulatedNode) -> Feed | None:
        """The quotas of a node's present process; None if it has no metadata yet."""
        loader = probe.metadata_of(node)
        if loader is None:
            return None
        feed = self._feeds.get(node.node_id)
        if feed is None or feed.loader is not loader:
            feed = self._feeds[node.node_id] = Feed(loader, self._now_s)
            loader.subscribe(feed.on_image)
        return feed

    def on_answer(self, node: SimulatedNode, feed: Feed | None, sent: Sent) -> None:
        """A node has answered a metered client; ``feed`` is what it had when the request left.

        Raises:
            ViolationError: INV-QUOTA: the client is to wait for less than its quota asks for, or went on while it was to wait.
        """
        if feed is None or self.feed_of(node) is not feed or feed.changed_s >= sent.sent_s:
            note(Excuse.UNJUDGED_REQUESTS)
            return
        self.throttled += sent.throttle_ms > 0
        untold = feed.untold.pop(sent.connection, None)
        if untold is not None:
            raise ViolationError(_INVARIANT, node.name, untold)
        before = feed.sent.setdefault(sent.client_id, [])
        last = next((each for each in reversed(before) if each.connection == sent.connection), None)
        before.append(sent)
        del before[:-_KEPT]
        if last is not None and sent.answered_s < last.sent_s + last.throttle_ms / 1000 / self._clock_rate - ROUNDING_S:
            raise ViolationError(
                _INVARIANT, node.name, f"{sent.client_id} was to wait for {last.throttle_ms} ms: {last}, then {sent}"
            )
        quota = quota_of(feed.image, sent.client_id)
        if quota is None:
            if sent.throttle_ms:
                raise ViolationError(_INVARIANT, node.name, f"{sent.client_id} has no quota and is throttled: {sent}")
            return
        self.judged += 1
        counted = sum(each.size for each in before if self._counts(each, sent))
        least_ms = (counted / quota - FORGIVEN_S - ROUNDING_S) * 1000
        if sent.throttle_ms < least_ms:
            raise ViolationError(
                _INVARIANT,
                node.name,
                f"{sent.client_id} has sent {counted} bytes with a quota of {quota:.0f} a second, and is to wait for less than"
                f" {least_ms:.0f} ms: {sent} (QUOTA-2)",
            )

    def on_held(self, node: SimulatedNode, feed: Feed | None, sent: Sent, look: Look) -> None:
        """A node has said which clients it holds, after it had one wait; ``feed`` is what it had when it was asked.

        Whether the client's connection was still there is seen when it is answered again.

        Raises:
            ViolationError: INV-QUOTA: the node says that it holds a client without a quota.
        """
        if feed is None or self.feed_of(node) is not feed or feed.changed_s >= min(sent.sent_s, look.asked_s):
            return
        for client_id in look.client_ids:
            if not any(feed.image.client_quotas.get(entity) for entity in _entities_of(client_id)):
                raise ViolationError(_INVARIANT, node.name, f"{client_id} has no quota and is held: {look}")
        if sent.client_id in look.client_ids:
            self.told_held += 1
        elif look.answered_s < sent.sent_s + sent.throttle_ms / 1000 / self._clock_rate - ROUNDING_S:
            feed.untold[sent.connection] = (
                f"{sent.client_id} was to wait, and was not named as held: {sent}, then {look}"
            )

    def _counts(self, earlier: Sent, sent: Sent) -> bool:
        """True if a node certainly had a request in its windows, of all connections of the client, when it had done another."""
        age_s = (sent.answered_s - earlier.sent_s) * self._clock_rate + ROUNDING_S
        is_before = earlier.answered_s <= sent.sent_s or earlier.connection == sent.connection
        return (is_before and age_s < WINDOWS_S) or earlier is sent

    def on_changed(self, node: SimulatedNode, entity: QuotaEntity, value: float | None) -> None:
        """A node has acknowledged a quota, or with None that it is gone. Raises ViolationError."""
        self._known[entity] = value
        feed = self.feed_of(node)
        if feed is not None:
            self._check(node.name, feed.loader.image)

    def forget(self, entity: QuotaEntity) -> None:
        """Ask nothing of this entity: a change of its quota may have been made or not."""
        self._known.pop(entity, None)

    def check_end(self, image: ClusterImage) -> None:
        """Hold the cluster's quotas in the end against all that was acknowledged. Raises ViolationError."""
        self._check("the cluster", image)

    def _check(self, where: str, image: ClusterImage) -> None:
        for entity, value in self._known.items():
            found = image.client_quotas.get(entity, {}).get(PRODUCER_BYTE_RATE)
            if found != value:
                raise ViolationError(
                    _INVARIANT, where, f"the quota of {entity} is {found}, and {value} was acknowledged"
                )


def quota_of(image: ClusterImage, client_id: str) -> float | None:
    """The bytes a second that a client id may send, by the quotas of an image that are about it and its user."""
    for entity in _entities_of(client_id):
        value = image.client_quotas.get(entity, {}).get(PRODUCER_BYTE_RATE)
        if value is not None:
            return value
    return None


def _entities_of(client_id: str) -> tuple[QuotaEntity, ...]:
    """The entities that metered clients have, the most special one first."""
    return user_and_client(USER, client_id), user_and_client(None, client_id), client_alone(client_id)
