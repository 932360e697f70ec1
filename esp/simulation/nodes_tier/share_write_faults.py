"""Faults in which a member of a share group ends while its words are being written, and the write fails (SHARE-7).

The share coordinator dies just when the words are on their way to it, and the member's sessions end before its leader has given up.
"""

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Final, Protocol

from esp.broker.share_states.coordinators import coordinator_key
from esp.controller.image import ClusterImage
from esp.groups.partitioning import partition_for
from esp.model.ids import NO_NODE, SHARE_STATES_TOPIC
from esp.schemas.share_state_records import ShareStateKey
from esp.simulation.machine.loop import current_process
from esp.simulation.nodes_tier.faults import Fault, FaultKind
from esp.simulation.nodes_tier.node import SimulatedNode
from esp.simulation.nodes_tier.world import World

SHARE: Final = 0.7
"""The share of the writes with words of a member that are hit, when the last one that was hit is some time ago."""

REST_S: Final = (0.5, 3.0)
"""The time from one of them until the next one may be hit: another coordinator leads by then, mostly."""

DOWN_S: Final = (2.0, 6.0)
"""The time for which a coordinator is dead: longer than leaders ask for it (:attr:`ShareProfile.patience_us`), mostly."""

LATEST_S: Final = 0.001
"""The write is on its way for as long, where nodes are near to one another."""

END_S: Final = 0.2
"""A leader gives up no sooner."""

DYING_SHARE: Final = 0.7
"""The share of the members that die: the others lose their connections and go on."""


class EndSessions(Protocol):
    """Ends the sessions of a member of a share group."""

    def __call__(self, group_id: str, member_id: str, *, dies: bool) -> None:
        """It dies, or loses its connections and goes on."""


class ShareWriteFaults:
    """Brings them in the runs whose profile asks for them.

    Args:
        world: the cluster that they befall.
        bring: lets a fault of a general kind happen now, unless the faults have ended.
        image: the newest metadata.
        is_over: true if the faults have ended.
    """

    def __init__(
        self,
        world: World,
        bring: Callable[[Fault], None],
        image: Callable[[], ClusterImage],
        is_over: Callable[[], bool],
    ) -> None:
        self.end_sessions: EndSessions = _end_nothing
        self._world = world
        self._bring = bring
        self._image = image
        self._is_over = is_over
        self._rng: Random = world.random("faults of share writes")
        self._rested_s = 0.0

    def on_words(self, key: ShareStateKey, member_id: str) -> None:
        """The running leader of a share partition is about to have words of a member written."""
        profile, world, rng = self._world.profile.share, self._world, self._rng
        if profile is None or not profile.ends_in_writes or self._is_over() or world.loop.time() < self._rested_s:
            return
        node = self._coordinator(key)
        # A leader that is the coordinator's node would die with it.
        if node is None or node.process is current_process() or rng.random() >= SHARE:
            return
        self._rested_s = world.loop.time() + rng.uniform(*REST_S)
        fault = Fault(0.0, FaultKind.KILL, (node.node_id,), rng.uniform(*DOWN_S))
        late_s, end_s = rng.choice((0.0, 0.0, LATEST_S * rng.random())), rng.uniform(0.0, END_S)
        end = partial(self.end_sessions, key.group_id, member_id, dies=rng.random() < DYING_SHARE)
        world.loop.call_later(late_s, self._come, fault, end_s, end, context=world.context)

    def _come(self, fault: Fault, end_s: float, end: Callable[[], None]) -> None:
        self._bring(fault)
        (node_id,) = fault.nodes
        if not self._world.nodes[node_id].is_alive:
            self._world.loop.call_later(end_s, end, context=self._world.context)

    def _coordinator(self, key: ShareStateKey) -> SimulatedNode | None:
        topic = self._image().topics_by_name.get(SHARE_STATES_TOPIC)
        if topic is None:
            return None
        leader = topic.partitions[partition_for(coordinator_key(key), len(topic.partitions))].leader
        return None if leader == NO_NODE else self._world.nodes[leader]


def _end_nothing(group_id: str, member_id: str, *, dies: bool) -> None:
    """There are no members."""
    _ = group_id, member_id, dies
