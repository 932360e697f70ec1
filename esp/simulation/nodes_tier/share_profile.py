"""The share groups (KIP-932) of a run, and the faults that befall their members."""

import dataclasses
from dataclasses import dataclass
from random import Random
from typing import Final

from esp.broker.share_states.persister import GIVE_UP_US
from esp.model.features import DEAD_LETTERS_FROM
from esp.settings.broker import BrokerSettings

SHARE: Final = 0.2
"""The share of the runs that have share groups."""

ALONE_CHAOS_S: Final = (10.0, 25.0)
"""The time of the faults where there is little else, in seconds."""

LETTERS: Final = "dlq.shared"
"""The dead-letter queue of all groups, in runs that have one."""

HEARTBEATS_PER_SESSION: Final = 6

KEPT_SHARE: Final = 0.6
"""The share of the runs with share groups in which all members keep the recesses, if the groups have some."""

WORKING_SHARE: Final = 0.3
"""The share of the runs with little else in which members work at records for a while, so that several hold some at the same time."""

WORKING_MEMBERS_MIN: Final = 4
"""The members of a group there: more than its topics mostly have partitions, so that several read the same one."""

WORKING_CALM_S: Final = 2.0
"""The most time, on the average, until something befalls such a member."""

WORK: Final = (0.2, 0.5)
"""Mean times for which they work, as parts of the time for which records are locked."""

ENDING_SHARE: Final = 0.3
"""The share of the runs with little else in which share coordinators die when words of a member reach them, and the member ends then."""

ENDING_PATIENCE_S: Final = 0.5
ENDING_LOCK_S: Final = 2.0
"""The least lock there: a write that fails leaves records with a lock that has not ended."""


@dataclass(frozen=True, slots=True)
class ShareProfile:
    """One or two groups; times in seconds."""

    groups: int
    members: int
    """The number of members of each group."""
    session_s: float
    """``group.share.session.timeout.ms`` of all nodes."""
    assignment_s: float
    """``group.share.assignment.interval.ms`` of all nodes."""
    lock_s: float
    """``group.share.record.lock.duration.ms`` of all nodes."""
    attempts: int
    """``group.share.delivery.count.limit`` of all nodes."""
    span: int
    """``group.share.partition.max.record.locks`` of all nodes."""
    calm_s: float
    """Mean time until something befalls a member: it leaves, dies, stands still, or loses a connection."""
    recess_s: float | None
    """Mean time between two recesses, in which all members leave so that an administrator can change the offsets; None: never."""
    goodness: float
    """The share of records that members accept at once."""
    begins_at_earliest: bool
    """True if ``share.auto.offset.reset`` of the groups is ``earliest``."""
    states_partitions: int
    """``share.coordinator.state.topic.num.partitions``."""
    offsets_partitions: int
    """``offsets.topic.num.partitions``, in runs without other groups."""
    min_insync_replicas: int
    """The brokers' default, in runs without other groups."""
    updates_per_snapshot: int
    prune_s: float
    """``share.coordinator.state.topic.prune.interval.ms`` of all nodes."""
    cold_s: float
    """``share.coordinator.cold.partition.snapshot.interval.ms`` of all nodes."""
    patience_s: float | None = None
    """The time for which nodes ask a share coordinator again; None: as in the product. There a write fails after half a minute, when most
    faults are over.
    """
    is_read_committed: bool = False
    """True if ``share.isolation.level`` of the groups is ``read_committed``."""
    reads_passing: bool = False
    """True if members read topics, too, that come and go, some by way of the trash."""
    grows: bool = False
    """True if topics get more partitions while members read them."""
    has_late_writes: bool = False
    """True if writes of states come to share coordinators once more, or late."""
    is_alone: bool = False
    """True if there is little else in the run, and it is short."""
    has_letters: bool = False
    """True if records that are rejected, or out of attempts, are reported to :data:`LETTERS`."""
    copies_records: bool = False
    """True if letters have copies of their records."""
    is_set_back: bool = False
    """True if in the end, when all records are done with, the groups begin at offset 0 again."""
    keeps_recesses: bool = False
    """True if members leave as soon as a recess begins and come back when it is over; else some join in the midst of it."""
    works_s: float | None = None
    """Mean time for which a member works at what it got before it says what has become of it; None: it says so at once."""
    ends_in_writes: bool = False
    """True if members end while their words are being written, and these writes fail
    (:mod:`esp.simulation.nodes_tier.share_write_faults`).
    """

    @property
    def level(self) -> int:
        """The cluster's ``share.version``."""
        return DEAD_LETTERS_FROM if self.has_letters else 1

    @property
    def patience_us(self) -> int:
        """The time for which nodes ask a share coordinator again."""
        return GIVE_UP_US if self.patience_s is None else int(self.patience_s * 1_000_000)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the groups."""
        return tuple(f"queue-{number}" for number in range(self.groups))

    @property
    def heartbeat_s(self) -> float:
        """``group.share.heartbeat.interval.ms`` of all nodes."""
        return self.session_s / HEARTBEATS_PER_SESSION

    @classmethod
    def draw(cls, rng: Random, brokers: int) -> "ShareProfile | None":
        """The groups, or in most runs none."""
        if rng.random() >= SHARE:
            return None
        return cls.draw_some(rng, brokers)

    @classmethod
    def draw_some(cls, rng: Random, brokers: int) -> "ShareProfile":
        """The groups of a run that has some."""
        return cls(
            groups=rng.choice((1, 1, 2)),
            members=rng.choice((1, 2, 2, 3, 4)),
            session_s=rng.choice((1.5, 3.0)),
            assignment_s=rng.choice((0.0, 0.3, 1.0)),
            lock_s=rng.choice((0.5, 2.0, 5.0)),
            attempts=rng.choice((2, 3, 5)),
            span=rng.choice((8, 30, 200)),
            calm_s=rng.choice((2.0, 6.0, 20.0)),
            recess_s=rng.choice((None, 6.0, 15.0)),
            goodness=rng.choice((0.5, 0.8, 0.95)),
            begins_at_earliest=rng.random() < 0.6,
            states_partitions=rng.choice((1, 2, 3)),
            offsets_partitions=rng.choice((1, 2)),
            min_insync_replicas=min(brokers, rng.choice((1, 2, 2, 2))),
            updates_per_snapshot=rng.choice((0, 3, 20)),
            prune_s=rng.choice((0.5, 3.0)),
            cold_s=rng.choice((1.0, 10.0)),
            is_alone=rng.random() < 0.5,
            is_set_back=rng.random() < 0.5,
            has_letters=rng.random() < 0.5,
            patience_s=rng.choice((None, 0.5, 2.0)),
            has_late_writes=rng.random() < 0.5,
            is_read_committed=rng.random() < 0.5,
            reads_passing=rng.random() < 0.4,
            grows=rng.random() < 0.3,
            copies_records=rng.random() < 0.5,
            keeps_recesses=rng.random() < KEPT_SHARE,
        )

    def aimed(self, rng: Random) -> "ShareProfile":
        """The same in most runs; in some members work for a while, and in some they end while their words are being written."""
        is_working, is_ending, work = rng.random() < WORKING_SHARE, rng.random() < ENDING_SHARE, rng.choice(WORK)
        found = self
        if is_ending:
            found = dataclasses.replace(
                found,
                ends_in_writes=True,
                patience_s=self.patience_s or ENDING_PATIENCE_S,
                lock_s=max(ENDING_LOCK_S, self.lock_s),
            )
        if is_working:
            found = dataclasses.replace(
                found,
                works_s=work * found.lock_s,
                members=max(WORKING_MEMBERS_MIN, self.members),
                calm_s=min(WORKING_CALM_S, self.calm_s),
            )
        return found

    def applied_to(self, settings: BrokerSettings, *, has_other_groups: bool) -> BrokerSettings:
        """A node's settings in such a run."""
        settings = dataclasses.replace(
            settings,
            group_share_session_timeout_ms=int(self.session_s * 1000),
            group_share_heartbeat_interval_ms=int(self.heartbeat_s * 1000),
            group_share_assignment_interval_ms=int(self.assignment_s * 1000),
            group_share_record_lock_duration_ms=int(self.lock_s * 1000),
            group_share_delivery_count_limit=self.attempts,
            group_share_partition_max_record_locks=self.span,
            share_coordinator_state_topic_num_partitions=self.states_partitions,
            share_coordinator_snapshot_update_records_per_snapshot=self.updates_per_snapshot,
            share_coordinator_state_topic_prune_interval_ms=int(self.prune_s * 1000),
            share_coordinator_cold_partition_snapshot_interval_ms=int(self.cold_s * 1000),
        )
        if has_other_groups:
            return settings
        return dataclasses.replace(
            settings, min_insync_replicas=self.min_insync_replicas, offsets_topic_num_partitions=self.offsets_partitions
        )
