"""The nature of one seed's run: the cluster, its load, and which faults come how often.

Swarm testing: about half of the kinds of faults are off in a run, and the rates of the others differ by orders of magnitude, because
faults hide one another. Everything is drawn from the seed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Final

from esp.controller.decision import BATCH_RECORDS_MAX, SLICE_CHANGES_MAX
from esp.controller.image import MIN_INSYNC_REPLICAS
from esp.simulation.nodes_tier.away_profile import draw_absent_directories
from esp.simulation.nodes_tier.compaction_profile import COMPACTED, CompactionProfile
from esp.simulation.nodes_tier.consumer_group_profile import ALONE_CHAOS_S as CONSUMER_CHAOS_S
from esp.simulation.nodes_tier.consumer_group_profile import ConsumerGroupProfile
from esp.simulation.nodes_tier.expiry_profile import ExpiryProfile
from esp.simulation.nodes_tier.faults import FaultKind
from esp.simulation.nodes_tier.group_profile import NO_GROUPS, OLD_CLIENTS_SHARE, GroupsProfile
from esp.simulation.nodes_tier.isr_profile import USUAL_ISR, IsrProfile
from esp.simulation.nodes_tier.late_timer_profile import CHAOS_S, has_late_timers, with_late_timers
from esp.simulation.nodes_tier.layout import Layout
from esp.simulation.nodes_tier.log_start_profile import HOLD_GROUPS, LogStartProfile, draw_holds
from esp.simulation.nodes_tier.loss_profile import draw_losses
from esp.simulation.nodes_tier.lost_cache_profile import draw_lost_caches, draw_lost_parts
from esp.simulation.nodes_tier.marker_profile import believes_markers, with_copies_of_last_lives
from esp.simulation.nodes_tier.ostracism_profile import CHAOS_S as OSTRACISM_CHAOS_S
from esp.simulation.nodes_tier.ostracism_profile import has_long_ostracisms, with_long_ostracisms
from esp.simulation.nodes_tier.outage_profile import OutageProfile
from esp.simulation.nodes_tier.relocation import draw_relocations
from esp.simulation.nodes_tier.repair_profile import RepairProfile
from esp.simulation.nodes_tier.share_profile import ALONE_CHAOS_S as SHARE_CHAOS_S
from esp.simulation.nodes_tier.share_profile import ShareProfile
from esp.simulation.nodes_tier.timing_profile import DEFAULT_TIMING, TimingProfile
from esp.simulation.nodes_tier.transaction_profile import (
    ALONE_CHAOS_S,
    DELAY_ALONE_S,
    FAULTS_MEAN_S,
    FIRST_LEVELS,
    LEVEL,
    TRANSACTIONAL_TOPIC,
    TransactionProfile,
)
from esp.simulation.nodes_tier.twin_profile import draw_twins
from esp.simulation.nodes_tier.upgrade_profile import UpgradeProfile
from esp.simulation.nodes_tier.voter_twin_profile import draw_voter_twins
from esp.simulation.streams import stream

CLUSTER_SIZES: Final = (1, 3, 3, 3, 3, 3, 3, 5)
"""Each as often as it is drawn: most of what can go wrong does so among three."""

OFF_SHARE: Final = 0.5
"""The share of the kinds of faults that do not come, in each run."""

MOVING_SHARE: Final = 0.4
"""The share of the clusters of several brokers in which partitions are reassigned."""

THROTTLING_SHARE: Final = 0.4
"""The share of the clusters of several brokers in which replication is throttled now and then."""

BALANCING_SHARE: Final = 0.2
"""The share of the clusters of several brokers in which preferred leaders lead again as soon as they are in sync."""

COOLING_SHARE: Final = 0.25
"""The share of all runs in which data that is read has left the page cache now and then."""

SURVEY_SHARE: Final = 0.3
"""The share of all runs in which a client asks what other clients do not."""

MISTAKEN_SHARE: Final = 0.15
"""The share of all runs in which a client sends requests that must be refused."""

GUARDED_SHARE: Final = 0.5
"""The share of all runs in which nodes have an authorizer, and rules of access come and go."""

GUARDED_TOPICS_SHARE: Final = 0.4
"""The share of those in which clients write to topics and read from them while rules of these come and go."""

USERS_SHARE: Final = 0.5
"""The share of all runs in which users with SCRAM credentials come and go."""

TOKENS_SHARE: Final = 0.25
"""The share of all runs in which users have delegation tokens."""

QUOTAS_SHARE: Final = 0.5
"""The share of all runs in which quotas of clients come and go."""

BATCH_RECORDS_MAXIMA: Final = (1, 3, *(BATCH_RECORDS_MAX,) * 6)
"""The most records of a batch of the metadata log: in a quarter of the runs most decisions are metadata transactions."""

SLICE_CHANGES_MAXIMA: Final = (1, 3, SLICE_CHANGES_MAX, SLICE_CHANGES_MAX)
"""The most partitions of a slice: in half of the runs brokers come and go in several slices, other decisions in between."""

PRODUCER_CHECK_SHARE: Final = 0.1
"""The share of all runs in which nodes look for idle producers every second."""

ASKING_SHARE: Final = 0.5
"""The share of the runs in which a client asks for all that brokers tell of offsets, and reads from followers (KIP-392)."""

OSTRACISM_S: Final = (15.0, 60.0)
"""Then a node that leads is cut off from all others but not from clients: mean seconds between two such cuts, in a run."""
SEVERAL_DIRECTORIES_SHARE: Final = 0.4
"""The share of all runs in which brokers have two log directories."""

DIRECTORY_MOVING_SHARE: Final = 0.5
"""The share of those in which replicas are moved from one to the other."""

DIRECTORY_MOVE_RATES: Final = (None, None, 20_000, 50_000)
"""In bytes per second, for each node: with a limit a move takes seconds, in which its replica may rot, go offline or be cut."""

LOSSES_MEAN_S: Final = (8.0, 120.0)
"""Least and most seconds between two losses of files while a node is down, on the average, where they come."""

REPAIR_S: Final = 20.0
"""The time by which faults come longer where a broker has to be away for a while before anything follows from it."""

MEAN_S: Final[Mapping[FaultKind, tuple[float, float]]] = {
    FaultKind.KILL: (2, 60),
    FaultKind.KILL_IN_DISK: (5, 60),
    FaultKind.KILL_CONTROLLER: (5, 60),
    FaultKind.RESTART: (8, 60),
    FaultKind.POWER_LOSS: (8, 60),
    FaultKind.PAUSE: (3, 60),
    FaultKind.CUT: (2, 60),
    FaultKind.CUT_ONE_WAY: (2, 60),
    FaultKind.ISOLATE: (5, 60),
    FaultKind.CUT_CLIENTS: (5, 60),
    FaultKind.FLAP: (10, 60),
    FaultKind.DELAY: (3, 60),
    FaultKind.LOSS: (3, 60),
    FaultKind.THROTTLE: (5, 60),
    FaultKind.RESET: (1, 60),
    FaultKind.SLOW_DISK: (4, 60),
    FaultKind.FULL_DISK: (15, 120),
    FaultKind.IO_ERROR: (15, 120),
    FaultKind.CLOCK_JUMP: (5, 60),
    FaultKind.TARGETED: (1, 30),
    FaultKind.BIT_ROT: (2, 30),
    FaultKind.NEW_DISK: (20, 200),
    FaultKind.OLD_DISK: (20, 200),
    FaultKind.STRAND: (2, 15),
    FaultKind.FLIP: (5, 60),
}
"""Least and most seconds between two faults of a kind, on the average; the run's own mean is log-uniform between them."""

_LONG_FAULTS: Final = frozenset({FaultKind.LATE_TIMER, FaultKind.LONG_OSTRACISM})
"""The faults that need the time of a whole run."""

_BESIDE_TRANSACTIONS: Final = frozenset(
    {
        FaultKind.KILL,
        FaultKind.POWER_LOSS,
        FaultKind.PAUSE,
        FaultKind.CUT,
        FaultKind.CUT_ONE_WAY,
        FaultKind.ISOLATE,
        FaultKind.CUT_CLIENTS,
        FaultKind.DELAY,
        FaultKind.RESET,
        FaultKind.CLOCK_JUMP,
        *FAULTS_MEAN_S,
    }
)
"""The faults of runs in which next to nothing but transactions goes on."""


@dataclass(frozen=True, slots=True)
class TopicProfile:
    """A topic of the workload; its ``min_insync_replicas`` never exceeds ``replication_factor``."""

    name: str
    partitions: int
    replication_factor: int
    min_insync_replicas: int
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Profile:
    """See the fields; times in seconds."""

    seed: int
    layout: Layout
    clock_rates: tuple[float, ...]
    latency_us: tuple[int, int]
    topics: tuple[TopicProfile, ...]
    idempotent_producers: int
    plain_producers: int
    consumers: int
    administrators: int
    pause_between_batches_s: float
    """Mean time that a producer lets pass between two batches for a partition."""
    chaos_s: float
    """The time for which faults come."""
    heals_core_only: bool
    """True if the cluster must recover without the nodes that it does not need (see :mod:`esp.simulation.nodes_tier.core`)."""
    snapshots_metadata: bool
    """True if the metadata log is snapshotted, rolled and cut every few records."""
    fault_means_s: Mapping[FaultKind, float]
    """The kinds that are on, with the mean time between two of a kind."""
    groups: GroupsProfile = NO_GROUPS
    """The consumer groups."""
    moves_partitions: bool = False
    """True if partitions are reassigned during the run (KIP-455)."""
    throttles: bool = False
    """True if replication throttles are set, changed and removed during the run (KIP-73)."""
    balances_leaders: bool = False
    """True if partitions go back to their preferred leaders at once, not after minutes."""
    cools: bool = False
    """True if pages leave the page cache during the run."""
    surveys: bool = False
    """True if all APIs are asked, in all versions."""
    mistakes: bool = False
    """True if a client sends requests that must be refused."""
    is_guarded: bool = False
    """True if nodes have an authorizer, and rules of access come and go."""
    guards_topics: bool = False
    """True if rules of topics come and go as well, to which a client writes and from which one reads."""
    has_users: bool = False
    """True if users with SCRAM credentials come and go."""
    has_tokens: bool = False
    """True if delegation tokens come and go."""
    has_quotas: bool = False
    """True if quotas of clients come and go."""
    batch_records_max: int = BATCH_RECORDS_MAX
    """Records of one batch of the metadata log; a decision that has more is a metadata transaction."""
    slice_changes_max: int = SLICE_CHANGES_MAX
    """Partitions that one slice of a decision changes when a broker comes or goes."""
    checks_producers: bool = False
    """True if nodes look for idle producers every second: a run is too short for one to be forgotten."""
    breaks_promise: bool = False
    """True if more is lost than is promised to survive (see :mod:`esp.simulation.nodes_tier.beyond_promise`)."""
    asks_offsets: bool = False
    """True if a client asks for everything that brokers tell of offsets, and reads from the replicas in its rack."""
    repairs: RepairProfile | None = None
    """The cluster's repair of itself, if it has one."""
    log_starts: LogStartProfile | None = None
    """The moves of log starts, if they move."""
    timing: TimingProfile = DEFAULT_TIMING
    """The time that the nodes' computations take."""
    outage: OutageProfile | None = None
    """The outage that lasts for minutes when the other faults have come, if there is one."""
    has_more: bool = False
    """True if brokers have a second log directory."""
    isr: IsrProfile = USUAL_ISR
    """The lag time of replicas in the in-sync sets, and the changes of their minimum."""
    moves_directories: bool = False
    """True if replicas move between the log directories of their nodes."""
    directory_moves_rate: int | None = None
    """The rate of all moves of a node between its log directories together, in bytes per second; None: no limit."""
    upgrade: UpgradeProfile | None = None
    """The nodes' upgrade to a newer release, if they begin with an older one."""
    transaction_level: int = LEVEL
    """The level of ``transaction.version`` with which the cluster begins."""
    transactions: TransactionProfile | None = None
    """The transactional producers, if there are any."""
    compaction: CompactionProfile | None = None
    """The compacted topic, if there is one."""
    believes_markers: bool = True
    """False if the end of a process counts as an unclean stop (``running.marker.enable``)."""
    consumer_group: ConsumerGroupProfile | None = None
    """The consumer group of KIP-848, if there is one."""
    share: ShareProfile | None = None
    """The share groups of KIP-932, if there are some."""

    @property
    def node_count(self) -> int:
        """The number of nodes."""
        return len(self.layout.nodes)

    @property
    def every_topic(self) -> tuple[TopicProfile, ...]:
        """The topics that the run begins with: those of the workload, and that of the transactional producers."""
        found = self.transactions
        if found is None:
            return self.topics
        configs = {MIN_INSYNC_REPLICAS: str(found.min_insync_replicas), "segment.ms": str(found.segment_ms)}
        if found.compaction is not None:
            configs |= found.compaction.topic_configs
        own = TopicProfile(
            TRANSACTIONAL_TOPIC, found.partitions, found.replication_factor, found.min_insync_replicas, configs
        )
        return (*self.topics, own)

    @property
    def changing_topics(self) -> frozenset[str]:
        """The topics whose policy clients change."""
        of_transactions = self.transactions.compaction if self.transactions is not None else None
        found = {COMPACTED: self.compaction, TRANSACTIONAL_TOPIC: of_transactions}
        return frozenset(name for name, one in found.items() if one is not None and one.changes_policy)

    @classmethod
    def draw(cls, seed: int, *, node_count: int | None = None) -> "Profile":
        """The profile of a seed; ``node_count`` overrules what the seed says of it, with nodes that have both roles."""
        rng = stream("profile", seed)
        drawn_count = rng.choice(CLUSTER_SIZES)
        layout = (
            Layout.combined(node_count) if node_count is not None else Layout.draw(stream("layout", seed), drawn_count)
        )
        nodes, brokers = len(layout.nodes), len(layout.brokers)
        repairs = RepairProfile.draw(stream("repairs", seed), brokers)
        copies = min(3, brokers if repairs is None else brokers - 1)
        losses = draw_losses(stream("beyond the promise", seed), layout)
        lost_caches = draw_lost_caches(stream("lost caches", seed)) | draw_lost_parts(stream("lost parts", seed))
        asking = stream("asks offsets", seed)
        asks_offsets = asking.random() < ASKING_SHARE
        latency_us = rng.choice(((50, 500), (50, 500), (500, 5_000), (100, 50_000)))
        drawn = cls(
            seed=seed,
            layout=layout,
            clock_rates=tuple(rng.choice((1.0, rng.uniform(0.9, 1.1))) for _ in range(nodes)),
            latency_us=latency_us,
            topics=tuple(
                _draw_topic(rng, f"topic-{number}", brokers, copies) for number in range(rng.choice((1, 1, 2)))
            ),
            idempotent_producers=rng.choice((1, 2, 3)),
            plain_producers=rng.choice((0, 1)),
            consumers=rng.choice((1, 2)),
            administrators=rng.choice((0, 1)),
            pause_between_batches_s=rng.choice((0.2, 1.0, 3.0)),
            chaos_s=rng.uniform(20, 60) + (REPAIR_S if repairs is not None else 0),
            heals_core_only=rng.random() < 0.4,
            snapshots_metadata=rng.random() < 0.3,
            fault_means_s={
                **_with_losses(_with_absences(_draw_faults(rng, nodes), repairs), stream("losses", seed)),
                **losses,
                **lost_caches,
                **draw_twins(stream("twins", seed), layout),
                **draw_voter_twins(stream("voter twins", seed), layout),
                **draw_relocations(stream("relocations", seed), layout),
                **({FaultKind.OSTRACIZE: asking.uniform(*OSTRACISM_S)} if asks_offsets and nodes > 1 else {}),
            },
            groups=GroupsProfile.draw(stream("groups", seed), brokers),
            moves_partitions=brokers > 1 and stream("moves", seed).random() < MOVING_SHARE,
            throttles=brokers > 1 and stream("throttles", seed).random() < THROTTLING_SHARE,
            balances_leaders=brokers > 1 and stream("balances leaders", seed).random() < BALANCING_SHARE,
            cools=stream("cools", seed).random() < COOLING_SHARE,
            surveys=stream("surveys", seed).random() < SURVEY_SHARE,
            asks_offsets=asks_offsets,
            breaks_promise=bool(losses),
            repairs=repairs,
            timing=TimingProfile.draw(seed),
            outage=OutageProfile.draw(stream("outage", seed), layout.nodes),
            has_more=stream("log directories", seed).random() < SEVERAL_DIRECTORIES_SHARE,
            isr=IsrProfile.draw(stream("in-sync sets", seed), brokers),
            upgrade=UpgradeProfile.draw(stream("upgrade", seed)),
            transactions=TransactionProfile.draw_of(seed, brokers, copies),
        )
        drawn = _with_aimed_faults(_with_rare_work(_with_doubted_markers(_with_second_directory(drawn))))
        if drawn.isr.by_default:
            drawn = _with_default_minimum(drawn)
        if drawn.groups.groups:
            drawn = _with_expiry(_with_old_clients(drawn), ExpiryProfile.draw(stream("expiry of offsets", seed)))
        drawn = _with_log_starts(drawn, LogStartProfile.draw(stream("log starts", seed)))
        drawn = _with_transactions(_with_compaction(drawn, CompactionProfile.draw(stream("compaction", seed))))
        return _with_share_groups(_with_consumer_group(drawn))


def _with_second_directory(profile: Profile) -> Profile:
    """The same, in part of the runs with a second log directory with moves between the two, and with second ones that go and come back."""
    if not profile.has_more:
        return profile
    if stream("moves between directories", profile.seed).random() < DIRECTORY_MOVING_SHARE:
        rate = stream("rates of moves between directories", profile.seed).choice(DIRECTORY_MOVE_RATES)
        profile = replace(profile, moves_directories=True, directory_moves_rate=rate)
    if len(profile.layout.brokers) == 1:
        return profile
    absences = draw_absent_directories(stream("absent log directories", profile.seed))
    return replace(profile, fault_means_s={**profile.fault_means_s, **absences})


def _with_rare_work(profile: Profile) -> Profile:
    """The same, with what comes in a few runs and changes nothing for the others."""
    is_guarded = stream("rules of access", profile.seed).random() < GUARDED_SHARE
    return replace(
        profile,
        mistakes=stream("mistakes", profile.seed).random() < MISTAKEN_SHARE,
        is_guarded=is_guarded,
        guards_topics=is_guarded and stream("rules of topics", profile.seed).random() < GUARDED_TOPICS_SHARE,
        transaction_level=stream("first level of transactions", profile.seed).choice(FIRST_LEVELS),
        has_users=stream("users", profile.seed).random() < USERS_SHARE,
        has_tokens=stream("delegation tokens", profile.seed).random() < TOKENS_SHARE,
        has_quotas=stream("quotas of clients", profile.seed).random() < QUOTAS_SHARE,
        batch_records_max=stream("records of a metadata batch", profile.seed).choice(BATCH_RECORDS_MAXIMA),
        slice_changes_max=stream("partitions of a slice", profile.seed).choice(SLICE_CHANGES_MAXIMA),
        checks_producers=stream("checks of producers", profile.seed).random() < PRODUCER_CHECK_SHARE,
    )


def _with_doubted_markers(profile: Profile) -> Profile:
    """The same in most runs; in some the running marker is not believed, and copies of the last life come back."""
    rng = stream("running markers", profile.seed)
    if believes_markers(rng):
        return profile
    means_s = with_copies_of_last_lives(rng, profile.layout, profile.fault_means_s)
    return replace(profile, believes_markers=False, fault_means_s=means_s)


def _with_aimed_faults(profile: Profile) -> Profile:
    """The same in most runs; in some one rare situation is brought about again and again, and the other faults are rare."""
    seed, layout, means_s = profile.seed, profile.layout, {**profile.fault_means_s}
    if has_late_timers(stream("late timers", seed), layout):
        return replace(profile, fault_means_s=with_late_timers(means_s), chaos_s=max(CHAOS_S, profile.chaos_s))
    if profile.asks_offsets and has_long_ostracisms(stream("long ostracisms", seed), layout):
        chaos_s = max(OSTRACISM_CHAOS_S, profile.chaos_s)
        return replace(profile, fault_means_s=with_long_ostracisms(means_s), chaos_s=chaos_s)
    return profile


def _with_old_clients(profile: Profile) -> Profile:
    """The same, in part of the runs with clients of older releases in the groups."""
    has_old_clients = stream("old clients of groups", profile.seed).random() < OLD_CLIENTS_SHARE
    return replace(profile, groups=replace(profile.groups, has_old_clients=has_old_clients))


def _with_expiry(profile: Profile, expiry: ExpiryProfile | None) -> Profile:
    """The same, with offsets that expire."""
    if expiry is None:
        return profile
    means_s = {**profile.fault_means_s, FaultKind.LAPSE: expiry.lapse_mean_s}
    expiring = replace(profile, fault_means_s=means_s, groups=replace(profile.groups, expiry=expiry))
    if profile.transactions is None:
        return expiring
    return replace(expiring, transactions=profile.transactions.without_offsets())


def _with_log_starts(profile: Profile, log_starts: LogStartProfile | None) -> Profile:
    """The same, with topics whose records go soon."""
    if log_starts is None:
        return profile
    configs = dict(log_starts.topic_configs)
    groups = [group.name for group in profile.groups.groups]
    if profile.groups.expiry is None and log_starts.has_retention:
        configs |= draw_holds(stream("holds", profile.seed), groups)
    topics = tuple(replace(topic, configs={**topic.configs, **configs}) for topic in profile.topics)
    return replace(profile, topics=topics, log_starts=log_starts)


def _with_compaction(profile: Profile, compaction: CompactionProfile | None) -> Profile:
    """The same with a compacted topic, which else is like the first one."""
    if compaction is None:
        return profile
    like = profile.topics[0]
    topic = replace(like, name=COMPACTED, partitions=1, configs={**like.configs, **compaction.topic_configs})
    return replace(profile, topics=(*profile.topics, topic), compaction=compaction)


def _with_transactions(profile: Profile) -> Profile:
    """The same with the faults that are aimed at transactions, in some runs without nearly all else."""
    found = profile.transactions
    if found is None:
        return profile
    faulty = replace(profile, fault_means_s={**profile.fault_means_s, **found.draw_faults(profile.seed)})
    return _with_transactions_alone(faulty) if found.is_alone else faulty


def _with_consumer_group(profile: Profile) -> Profile:
    """The same, with a consumer group of KIP-848 in some runs: not where transactions are alone."""
    transactions = profile.transactions
    if transactions is not None and transactions.is_alone:
        return profile
    drawn = ConsumerGroupProfile.draw(stream("consumer groups", profile.seed), len(profile.layout.brokers))
    if drawn is not None and profile.groups.expiry is not None:
        drawn = drawn.without_classic_members()
    if drawn is not None and drawn.is_alone:
        if transactions is not None or _takes_long(profile):
            drawn = replace(drawn, is_alone=False)
        else:
            profile = _briefly(
                profile, stream("time of consumer groups alone", profile.seed).uniform(*CONSUMER_CHAOS_S)
            )
    return _with_holder(replace(profile, consumer_group=drawn))


def _with_holder(profile: Profile) -> Profile:
    """The same; where groups hold records, in part of the runs with a consumer group of KIP-848 it does, by its name."""
    held = profile.topics[0].configs.get(HOLD_GROUPS)
    if held is None or profile.consumer_group is None:
        return profile
    name = profile.consumer_group.name
    names = stream("holds of consumer groups", profile.seed).choice((held, name, f"{held},{name}"))
    topics = tuple(
        replace(topic, configs={**topic.configs, HOLD_GROUPS: names}) if HOLD_GROUPS in topic.configs else topic
        for topic in profile.topics
    )
    return replace(profile, topics=topics)


def _with_share_groups(profile: Profile) -> Profile:
    """The same, with share groups in some runs: not where an older release knows none, nor where transactions are alone."""
    transactions = profile.transactions
    if profile.upgrade is not None or (transactions is not None and transactions.is_alone):
        return profile
    if profile.consumer_group is not None and profile.consumer_group.is_alone:
        return profile
    drawn = ShareProfile.draw(stream("share groups", profile.seed), len(profile.layout.brokers))
    if drawn is None or not drawn.is_alone:
        return replace(profile, share=drawn)
    if _takes_long(profile):
        return replace(profile, share=replace(drawn, is_alone=False))
    chaos_s = stream("time of share groups alone", profile.seed).uniform(*SHARE_CHAOS_S)
    return replace(
        _briefly(profile, chaos_s),
        share=drawn.aimed(stream("aims at share members", profile.seed)),
        consumer_group=None,
        topics=tuple(topic for topic in profile.topics if topic in profile.topics[:1] or topic.name == COMPACTED),
        compaction=profile.compaction,
        administrators=int(drawn.reads_passing),
    )


def _with_transactions_alone(profile: Profile) -> Profile:
    """The same with one topic, one producer and one reader beside the transactions, for a short time."""
    low, high = ALONE_CHAOS_S
    return replace(
        _alone(profile),
        topics=(replace(profile.topics[0], partitions=1),),
        pause_between_batches_s=3.0,
        chaos_s=stream("time of transactions alone", profile.seed).uniform(low, high),
        fault_means_s={
            **{kind: mean_s for kind, mean_s in profile.fault_means_s.items() if kind in _BESIDE_TRANSACTIONS},
            FaultKind.DELAY: DELAY_ALONE_S,  # answers that come after what was decided later
        },
    )


def _takes_long(profile: Profile) -> bool:
    """True if it has what needs the time of a whole run."""
    return (
        profile.repairs is not None
        or profile.groups.expiry is not None
        or not _LONG_FAULTS.isdisjoint(profile.fault_means_s)
    )


def _briefly(profile: Profile, chaos_s: float) -> Profile:
    """The same without nearly all else, for a short time, with the same records and faults."""
    return replace(
        _alone(profile),
        topics=tuple(topic for topic in profile.topics if topic.name != COMPACTED),
        chaos_s=chaos_s,
        pause_between_batches_s=min(1.0, profile.pause_between_batches_s),
        log_starts=profile.log_starts,
        breaks_promise=profile.breaks_promise,
    )


def _alone(profile: Profile) -> Profile:
    """The same without nearly all clients, and all else that takes time."""
    return replace(
        profile,
        idempotent_producers=1,
        plain_producers=0,
        consumers=1,
        administrators=0,
        groups=NO_GROUPS,
        moves_partitions=False,
        throttles=False,
        cools=False,
        surveys=False,
        breaks_promise=False,
        asks_offsets=False,
        repairs=None,
        log_starts=None,
        timing=DEFAULT_TIMING,
        outage=None,
        has_more=False,
        isr=USUAL_ISR,
        moves_directories=False,
        directory_moves_rate=None,
        upgrade=None,
        compaction=None,
    )


def _draw_topic(rng: Random, name: str, brokers: int, factor: int) -> TopicProfile:
    configs = {}
    if rng.random() < 0.5:
        configs["segment.ms"] = rng.choice(("1000", "5000"))
    if rng.random() < 0.3:
        configs["flush.ms"] = rng.choice(("500", "3000"))
    flushed = rng.random() < (0.5 if brokers == 1 else 0.2)
    if flushed:
        configs["flush.messages"] = "1"
    min_isr = min(2, factor) if rng.random() < 0.8 else rng.randint(1, factor)
    return TopicProfile(name, rng.randint(1, 3), factor, min_isr, {**configs, "min.insync.replicas": str(min_isr)})


def _with_default_minimum(profile: Profile) -> Profile:
    """The same, where the least minimum of a topic is that of all brokers, and such topics have none of their own."""
    default = min(topic.min_insync_replicas for topic in profile.topics)
    return replace(
        profile,
        topics=tuple(_without_own_minimum(topic, default) for topic in profile.topics),
        isr=replace(profile.isr, default_minimum=default),
    )


def _without_own_minimum(topic: TopicProfile, default: int) -> TopicProfile:
    if topic.min_insync_replicas != default:
        return topic
    return replace(topic, configs={name: value for name, value in topic.configs.items() if name != MIN_INSYNC_REPLICAS})


def _draw_faults(rng: Random, nodes: int) -> dict[FaultKind, float]:
    means = {}
    for kind, (low, high) in MEAN_S.items():
        is_on, mean = rng.random() >= OFF_SHARE, low * (high / low) ** rng.random()
        if is_on and not (nodes == 1 and kind in (FaultKind.CUT, FaultKind.CUT_ONE_WAY, FaultKind.FLAP)):
            means[kind] = mean
    return means


def _with_absences(means_s: Mapping[FaultKind, float], repairs: RepairProfile | None) -> dict[FaultKind, float]:
    """The faults that are added in clusters that repair themselves; where copies are held back, the others are rare."""
    if repairs is None:
        return {**means_s}
    means_s = {kind: mean_s * repairs.other_faults_rarity for kind, mean_s in means_s.items()}
    return {**means_s, FaultKind.ABSENCE: repairs.absence_mean_s}


def _with_losses(means_s: Mapping[FaultKind, float], rng: Random) -> dict[FaultKind, float]:
    """The faults that are added in the runs in which logs and directories vanish while nodes are down."""
    is_on, (low, high) = rng.random() >= OFF_SHARE, LOSSES_MEAN_S
    return {**means_s, FaultKind.LOST_FILES: low * (high / low) ** rng.random()} if is_on else {**means_s}
