"""The consumer groups of KIP-848 of a run, and the faults that befall their members."""

import dataclasses
from dataclasses import dataclass
from random import Random
from typing import Final

from esp.groups.settings import ASSIGNED_AT_ONCE_STEPS
from esp.settings.broker import BrokerSettings

SHARE: Final = 0.3
"""The share of the runs that have a group of members that speak the consumer protocol."""

ALONE_SHARE: Final = 0.3
"""The share of these runs that are short and have little else."""

ALONE_CHAOS_S: Final = (15.0, 30.0)
"""The time of the faults there, in seconds."""

SLICED_SHARE: Final = 0.4
"""The share of the runs with such a group in which its assignments are made in slices, as those of large groups are."""

GROWING_SHARE: Final = 0.5
"""Share of the runs with such a group in which a topic that is read by an expression gets another partition when all is well."""

HEARTBEATS_PER_SESSION: Final = 6

CONSUMER_GROUP: Final = "next-group"
"""The group's name."""


@dataclass(frozen=True, slots=True)
class ConsumerGroupProfile:
    """One group; times in seconds."""

    name: str
    members: int
    static_members: int
    """The number of them that have a ``group.instance.id``."""
    regex_share: float
    """The share of the lives of members that name topics by a regular expression."""
    session_s: float
    """``group.consumer.session.timeout.ms`` of all nodes."""
    assignment_s: float
    """``group.consumer.assignment.interval.ms`` of all nodes."""
    rebalance_s: float
    """The time that a member has to give partitions back."""
    give_back_s: float
    """The longest time that a member takes for it: longer than it has, in some runs."""
    calm_s: float
    """Mean time until something befalls a member: it leaves, dies, stands still, or asks for other topics."""
    assignor: str | None
    offsets_partitions: int
    """``offsets.topic.num.partitions``, in runs without classic groups."""
    min_insync_replicas: int
    """The brokers' default, in runs without classic groups."""
    classic_share: float = 0.0
    """The share of the lives of members that speak the classic protocol: the group moves between the protocols with them."""
    is_cooperative: bool = False
    """True if such members keep their partitions when they join; else they give all back first."""
    is_alone: bool = False
    """True if there is little else in the run, and it is short."""
    assigned_at_once_steps: int = ASSIGNED_AT_ONCE_STEPS
    """Steps of an assignment that is part of a heartbeat: so few in some runs that each assignment goes on in slices."""
    grows: bool = False
    """True if members read a topic by an expression when all is well, which gets another partition then, and all by names after that."""

    @property
    def heartbeat_s(self) -> float:
        """``group.consumer.heartbeat.interval.ms`` of all nodes."""
        return self.session_s / HEARTBEATS_PER_SESSION

    @classmethod
    def draw(cls, rng: Random, brokers: int) -> "ConsumerGroupProfile | None":
        """A group, or in most runs none."""
        if rng.random() >= SHARE:
            return None
        members = rng.choice((1, 2, 3, 3, 4))
        rebalance_s = rng.choice((2.0, 5.0))
        return cls(
            name=CONSUMER_GROUP,
            members=members,
            static_members=rng.choice((0, 0, rng.randint(0, members))),
            regex_share=rng.choice((0.0, 0.5, 1.0)),
            session_s=rng.choice((1.5, 3.0)),
            assignment_s=rng.choice((0.0, 0.3, 1.0)),
            rebalance_s=rebalance_s,
            give_back_s=rng.choice((0.05, 1.0, 1.5 * rebalance_s)),
            calm_s=rng.choice((2.0, 6.0, 20.0)),
            assignor=rng.choice((None, "uniform", "range")),
            offsets_partitions=rng.choice((1, 2, 3)),
            min_insync_replicas=min(brokers, rng.choice((1, 2, 2, 2))),
            classic_share=rng.choice((0.0, 0.0, 0.3, 0.6)),
            is_cooperative=rng.random() < 0.5,
            is_alone=rng.random() < ALONE_SHARE,
            assigned_at_once_steps=1 if rng.random() < SLICED_SHARE else ASSIGNED_AT_ONCE_STEPS,
            grows=rng.random() < GROWING_SHARE,
        )

    def without_classic_members(self) -> "ConsumerGroupProfile":
        """The same with members of the consumer protocol alone: a group that moves is removed as one of the protocol that it leaves."""
        return dataclasses.replace(self, classic_share=0.0)

    def applied_to(self, settings: BrokerSettings, *, has_classic_groups: bool) -> BrokerSettings:
        """A node's settings in such a run."""
        settings = dataclasses.replace(
            settings,
            group_consumer_session_timeout_ms=int(self.session_s * 1000),
            group_consumer_heartbeat_interval_ms=int(self.heartbeat_s * 1000),
            group_consumer_assignment_interval_ms=int(self.assignment_s * 1000),
            group_min_session_timeout_ms=min(settings.group_min_session_timeout_ms, int(self.session_s * 1000)),
        )
        if has_classic_groups:
            return settings
        return dataclasses.replace(
            settings,
            min_insync_replicas=self.min_insync_replicas,
            offsets_topic_num_partitions=self.offsets_partitions,
            group_initial_rebalance_delay_ms=int(self.heartbeat_s * 1000),
        )
