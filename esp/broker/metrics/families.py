"""The metrics of a node, in the form that Prometheus's client library expects.

Names begin with ``esp_``, units are base units. Everything is read when it is asked for: a node counts nothing for its metrics but its
requests and the delay of its loop.
"""

from collections.abc import Iterable, Iterator, Mapping
from heapq import nlargest
from operator import itemgetter
from typing import Final

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
    SummaryMetricFamily,
)

from esp.broker.broker_role import BrokerRole, RunningBroker
from esp.broker.controller_role import ControllerRole
from esp.broker.letter_desk import LetterCounts
from esp.broker.metrics.histogram import Histogram
from esp.broker.metrics.request_metrics import RequestMetrics
from esp.broker.raft.driver import RaftDriver
from esp.broker.replication.cleaner import LogCleaner
from esp.broker.replication.host import ReplicaHost
from esp.broker.replication.retention_holds import RetentionHolds
from esp.broker.replication.trash_guard import TrashGuard
from esp.broker.running_node import RunningNode
from esp.broker.transactions.coordinators import TransactionCoordinators
from esp.broker.transactions.verifier import TransactionVerifier
from esp.controller.image import ClusterImage
from esp.controller.self_repair import Proposal
from esp.model.ids import NO_NODE, TopicPartition
from esp.model.retention_hold import BREAKERS
from esp.model.tls import TlsStatus
from esp.ports.env import Env
from esp.protocol.registry import ListenerKind

PARTITIONS_SHOWN: Final = 50
"""The partitions that a metric with a value for each partition shows at most, the largest values first: a node may lead thousands."""

PRINCIPALS_SHOWN: Final = 20

GROUPS_SHOWN: Final = 50

_FIRST: Final = itemgetter(0)
_SECOND: Final = itemgetter(1)

_LATE_MS: Final = 5 * 60 * 1000
"""A transaction is late when its last record is older than the longest timeout and this (Kafka's ``LATE_TRANSACTION_BUFFER_MS``)."""

_LISTENERS: Final = {ListenerKind.BROKER: "broker", ListenerKind.CONTROLLER: "controller"}


def collect_requests(requests: Mapping[ListenerKind, RequestMetrics]) -> Iterator[Metric]:
    """Time and bytes of the requests, by kind of listener and by API."""
    labels = ("listener", "request")
    durations = HistogramMetricFamily(
        "esp_request_duration_seconds", "From a request's arrival to its answer, waiting included", labels=labels
    )
    received = CounterMetricFamily("esp_request_received_bytes", "Bytes of the bodies of requests", labels=labels)
    sent = CounterMetricFamily("esp_request_sent_bytes", "Bytes of the answers to requests", labels=labels)
    for kind, metrics in requests.items():
        for name, counts in sorted(metrics.by_name.items()):
            values = (_LISTENERS[kind], name)
            durations.add_metric(values, counts.durations.buckets(), counts.durations.sum_s)
            received.add_metric(values, counts.received_bytes)
            sent.add_metric(values, counts.sent_bytes)
    return iter((durations, received, sent))


def collect_loop(delays: Histogram) -> Iterator[Metric]:
    """The delay of the loop."""
    family = HistogramMetricFamily("esp_event_loop_delay_seconds", "Delay of timers in the event loop")
    family.add_metric((), delays.buckets(), delays.sum_s)
    yield family


def _collect_partitions(replicas: ReplicaHost) -> Iterator[Metric]:
    """The replicas of a node that is a broker."""
    led = followed = under_replicated = under_min_isr = at_min_isr = reassigning = 0
    for hosted in replicas:
        leader = hosted.leader
        if leader is None:
            followed += hosted.follower is not None
            continue
        led += 1
        in_sync, state = len(leader.state.isr), leader.state
        under_replicated += in_sync < len(state.original_replicas)  # replicas being added are not missing yet
        reassigning += state.is_reassigning
        under_min_isr += not leader.has_enough_replicas()
        at_min_isr += in_sync == leader.min_isr
    offline = len(replicas.offline_directories)
    yield from _gauges(
        ("esp_partitions_led", "Partitions that this node leads", led),
        ("esp_partitions_followed", "Partitions that this node follows", followed),
        ("esp_under_replicated_partitions", "Led partitions with replicas out of sync", under_replicated),
        ("esp_under_min_isr_partitions", "Led partitions that refuse acks=all", under_min_isr),
        ("esp_at_min_isr_partitions", "Led partitions that would refuse acks=all with one replica less", at_min_isr),
        ("esp_reassigning_partitions", "Led partitions whose replicas are being reassigned", reassigning),
        ("esp_offline_log_directories", "Log directories that have failed", offline),
    )


def _collect_open_transactions(replicas: ReplicaHost, max_timeout_ms: int, now_ms: int) -> Iterator[Metric]:
    """The transactions that are open in partitions that this node leads. Partitions without one cost a look at an attribute."""
    lags: list[tuple[int, TopicPartition]] = []
    idle: list[tuple[int, TopicPartition]] = []
    for hosted in replicas:
        log = hosted.log
        if hosted.leader is None or not log.producers.has_transactions:
            continue
        lag = log.high_watermark - log.last_stable_offset
        if lag:
            lags.append((lag, hosted.name))
        timestamp_ms = log.producers.oldest_open_timestamp
        if timestamp_ms is not None:
            idle.append((max(0, now_ms - timestamp_ms), hosted.name))
    late_ms = max_timeout_ms + _LATE_MS
    yield from _gauges(
        ("esp_partitions_with_open_transactions", "Led partitions in which a transaction is open", len(idle)),
        (
            "esp_partitions_with_late_transactions",
            "Led partitions whose oldest transaction should have ended",
            sum(age_ms > late_ms for age_ms, _ in idle),
        ),
    )
    labels = ("topic", "partition")
    family = GaugeMetricFamily(
        "esp_last_stable_offset_lag", "Committed offsets from the first open transaction on", labels=labels
    )
    for lag, name in nlargest(PARTITIONS_SHOWN, lags, key=_FIRST):
        family.add_metric((name.topic, str(name.partition)), lag)
    yield family
    family = GaugeMetricFamily(
        "esp_open_transaction_idle_seconds",
        "Age of the last record of the oldest open transaction's producer",
        labels=labels,
    )
    for age_ms, name in nlargest(PARTITIONS_SHOWN, idle, key=_FIRST):
        family.add_metric((name.topic, str(name.partition)), age_ms / 1000)
    yield family


def _collect_transactions(transactions: TransactionCoordinators, now_us: int) -> Iterator[Metric]:
    """The transactions that this node coordinates."""
    start_us = transactions.oldest_start_us
    return _gauges(
        (
            "esp_oldest_transaction_seconds",
            "Age of the oldest transaction that this node coordinates and that is not completed",
            0 if start_us is None else max(0, now_us - start_us) / 1_000_000,
        ),
        (
            "esp_transaction_markers_pending",
            "Markers of ended transactions that are not written yet",
            transactions.pending_markers,
        ),
        (
            "esp_transaction_markers_refused",
            "Markers that partitions refuse, so that their transactions cannot end",
            transactions.refused_markers,
        ),
    )


def _collect_unreadable_coordinators(broker: RunningBroker) -> Iterator[Metric]:
    """The partitions of internal topics that have no coordinator, as their logs cannot be read."""
    unreadable = GaugeMetricFamily(
        "esp_unreadable_coordinator_partitions",
        "Partitions of internal topics that this node leads and could not read, so that nothing in them is coordinated",
        labels=("topic",),
    )
    for coordinators in (broker.groups, broker.share_states, broker.transactions):
        unreadable.add_metric((coordinators.topic,), coordinators.unreadable_count)
    yield unreadable


def _collect_verification(verifier: TransactionVerifier) -> Iterator[Metric]:
    """The questions of this node's partition leaders to transaction coordinators."""
    yield SummaryMetricFamily(
        "esp_transaction_verification_seconds",
        "Time that first batches of transactions wait for their coordinators",
        count_value=verifier.verified,
        sum_value=verifier.verifying_us / 1_000_000,
    )
    yield CounterMetricFamily(
        "esp_transaction_verification_failures",
        "First batches of transactions that were refused, or that no coordinator has answered for",
        verifier.failures,
    )


def _collect_compaction(cleaner: LogCleaner) -> Iterator[Metric]:
    """The rounds of compaction, and the logs that it leaves alone."""
    yield from _gauges(
        ("esp_compaction_last_round_seconds", "Duration of the last round of compaction", cleaner.last_round_s),
        (
            "esp_compaction_map_utilization",
            "Share of the memory for keys that the last round took",
            cleaner.map_utilization,
        ),
        (
            "esp_compaction_last_round_memory_bytes",
            "The most memory that the last round of compaction held, keys and buffers",
            cleaner.last_memory_bytes,
        ),
        (
            "esp_compaction_max_dirty_ratio",
            "Share of the dirtiest compacted log that may be compacted and is not yet",
            cleaner.dirty_ratio,
        ),
        (
            "esp_compaction_uncleanable_partitions",
            "Compacted partitions that wait for the repair of a corrupt batch",
            sum(1 for _ in cleaner.uncleanable()),
        ),
    )
    for name, text, value in (
        ("esp_compaction_rounds", "Rounds of compaction that were completed", cleaner.rounds),
        ("esp_compaction_failures", "Rounds of compaction that ended with an error of the device", cleaner.failures),
        ("esp_compaction_read_bytes", "Bytes that compaction has read", cleaner.read_bytes),
        ("esp_compaction_written_bytes", "Bytes that compaction has written", cleaner.written_bytes),
    ):
        yield CounterMetricFamily(name, text, value)


def _collect_trash(guard: TrashGuard) -> Iterator[Metric]:
    """The deleted topics that can be restored, as far as they stand in this node's log directories."""
    topics, size = guard.kept()
    yield from _gauges(
        ("esp_trash_topics", "Deleted topics that can be restored and have replicas on this node", topics),
        ("esp_trash_bytes", "Bytes of these replicas, as they were measured last", size),
    )
    yield CounterMetricFamily(
        "esp_trash_early_purges",
        "Deleted topics that were purged before their time as a log directory of this node lacked room",
        guard.early_purges,
    )


def _collect_holds(holds: RetentionHolds) -> Iterator[Metric]:
    """The records that groups hold against retention, and those that they have lost to caps."""
    held = GaugeMetricFamily(
        "esp_retention_held_bytes",
        "Bytes of a partition led here that retention would have deleted if no group held them",
        labels=("topic", "partition"),
    )
    for hosted, size in nlargest(PARTITIONS_SHOWN, holds.held_bytes.items(), key=_SECOND):
        held.add_metric((hosted.name.topic, str(hosted.name.partition)), size)
    breaks = CounterMetricFamily(
        "esp_retention_hold_breaks",
        "Times that records went which a group had not read, by the cap or the request that took them",
        labels=("cap",),
    )
    lost = CounterMetricFamily(
        "esp_retention_hold_lost_offsets",
        "Offsets that groups had not read and that went, by the cap or the request that took them",
        labels=("cap",),
    )
    for cap in BREAKERS:
        breaks.add_metric((cap,), holds.breaks[cap])
        lost.add_metric((cap,), holds.lost_offsets[cap])
    yield from (held, breaks, lost)


def _collect_letters(counts: LetterCounts) -> Iterator[Metric]:
    """The dead letters that this node writes; a node without any shows none of it. Kafka's meters are named ``DeadLetterQueue…``."""
    labels = ("group",)
    pending = GaugeMetricFamily(
        "esp_share_dead_letters_pending", "Dead letters that this node is still to write", labels=labels
    )
    families: list[tuple[GaugeMetricFamily | CounterMetricFamily, Mapping[str, int]]] = [
        (pending, counts.pending_of_groups())
    ]
    for name, text, values in (
        ("esp_share_dead_letters", "Dead letters that were written", counts.written),
        ("esp_share_dead_letters_lost", "Records archived without a dead letter, as none can be written", counts.lost),
        (
            "esp_share_dead_letters_absent",
            "Offsets without a record any more, archived without a letter",
            counts.absent,
        ),
        ("esp_share_dead_letter_requests", "Requests by which dead letters were written", counts.requests),
        ("esp_share_dead_letter_failures", "Those among these requests that have failed", counts.failures),
    ):
        families.append((CounterMetricFamily(name, text, labels=labels), values))
    for family, by_group in families:
        for group_id, count in nlargest(GROUPS_SHOWN, by_group.items(), key=_SECOND):
            family.add_metric((group_id,), count)
        if family.samples:
            yield family


def _collect_connections(counts: Iterable[tuple[ListenerKind, int]]) -> Iterator[Metric]:
    """The number of clients connected to each kind of the node's listeners."""
    family = GaugeMetricFamily("esp_connections", "Open connections of clients", labels=("listener",))
    for kind, count in counts:
        family.add_metric((_LISTENERS[kind],), count)
    yield family


def _collect_encryption(statuses: Iterable[TlsStatus]) -> Iterator[Metric]:
    """The encrypted connections of each listener, and the end of its certificate; a node without any shows none of it."""
    labels = ("listener",)
    ends = GaugeMetricFamily(
        "esp_certificate_expiry_timestamp_seconds", "The time at which a listener's certificate ends", labels=labels
    )
    lists_end = GaugeMetricFamily(
        "esp_revocation_list_expiry_timestamp_seconds",
        "The time at which the first of a listener's revocation lists must have been renewed",
        labels=labels,
    )
    failures = CounterMetricFamily(
        "esp_tls_handshake_failures", "Connections that did not become secure, made by this node too", labels=labels
    )
    ended = CounterMetricFamily(
        "esp_tls_connections_ended", "Connections that ended with the certificates of their peers", labels=labels
    )
    for status in statuses:
        values = (status.listener.lower(),)
        ends.add_metric(values, status.certificate_ends_s)
        if status.revocations_end_s is not None:
            lists_end.add_metric(values, status.revocations_end_s)
        failures.add_metric(values, status.failures)
        ended.add_metric(values, status.ended)
    families = (ends, failures, ended, *((lists_end,) if lists_end.samples else ()))
    return iter(families if ends.samples else ())


def _collect_log_ins(counts: Iterable[tuple[tuple[str, str, bool], int]]) -> Iterator[Metric]:
    """The log-ins by SASL; a node without a listener that asks for them, or before the first one, shows none of it."""
    labels = ("listener", "mechanism")
    done = CounterMetricFamily("esp_log_ins", "Log-ins of clients that succeeded, renewals too", labels=labels)
    failed = CounterMetricFamily("esp_log_in_failures", "Log-ins of clients that were refused", labels=labels)
    for (listener, mechanism, succeeded), count in counts:
        (done if succeeded else failed).add_metric((listener.lower(), mechanism), count)
    return (family for family in (done, failed) if family.samples)


def _collect_denials(denials: Mapping[str, int]) -> Iterator[Metric]:
    """The principals that were denied most."""
    family = CounterMetricFamily(
        "esp_authorization_denials", "Requests, or parts of one, that were denied", labels=("principal",)
    )
    for principal, count in nlargest(PRINCIPALS_SHOWN, denials.items(), key=_SECOND):
        family.add_metric((principal,), count)
    yield family


def _collect_quotas(broker: BrokerRole) -> Iterator[Metric]:
    """The clients that quotas hold, by the quotas that hold them: there are as many as operators have set."""
    yield from _gauges(
        (
            "esp_throttled_connections",
            "Connections that are read no further for now, because their clients are over a quota",
            sum(client.hold.muted_until_us > 0 for client in broker.server.clients()),
        )
    )
    labels = ("quota", "clients")
    often = CounterMetricFamily("esp_quota_throttles", "Requests whose clients were throttled", labels=labels)
    seconds = CounterMetricFamily(
        "esp_quota_throttle_seconds", "Throttle times that clients were given, in sum", labels=labels
    )
    throttled = broker.quotas.throttled
    for (key, entity), (count, total_ms) in nlargest(PARTITIONS_SHOWN, throttled.items(), key=_throttle_ms):
        values = (key, ",".join(f"{part.type}={part.name or '<default>'}" for part in entity))
        often.add_metric(values, count)
        seconds.add_metric(values, total_ms / 1000)
    yield often
    yield seconds


def _throttle_ms(item: tuple[object, tuple[int, int]]) -> int:
    return item[1][1]


def _collect_quorum(raft: RaftDriver) -> Iterator[Metric]:
    """The node's position in the metadata quorum."""
    return _gauges(
        ("esp_active_controller", "1 on the active controller", int(raft.is_active)),
        ("esp_quorum_epoch", "The newest epoch of the metadata quorum that this node knows of", raft.epoch),
        (
            "esp_metadata_committed_offset",
            "The high watermark of the metadata log, as known to this node",
            raft.high_watermark,
        ),
    )


def _collect_cluster(image: ClusterImage) -> Iterator[Metric]:
    """The cluster, as its active controller sees it."""
    partitions = [partition for topic in image.topics_by_name.values() for partition in topic.partitions]
    return _gauges(
        ("esp_cluster_topics", "Topics of the cluster", len(image.topics_by_name)),
        ("esp_cluster_partitions", "Partitions of the cluster", len(partitions)),
        (
            "esp_cluster_offline_partitions",
            "Partitions without a leader",
            sum(partition.leader == NO_NODE for partition in partitions),
        ),
        (
            "esp_cluster_partitions_not_led_by_preferred",
            "Partitions whose leader is not their preferred replica",
            sum(partition.leader != partition.replicas[0] for partition in partitions),
        ),
        (
            "esp_cluster_active_brokers",
            "Brokers that are unfenced",
            sum(not one.fenced for one in image.brokers.values()),
        ),
        ("esp_cluster_fenced_brokers", "Brokers that are fenced", sum(one.fenced for one in image.brokers.values())),
    )


def _collect_self_repair(proposal: Proposal | None) -> Iterator[Metric]:
    """The repairs that the active controller proposes or makes for brokers that are gone, draining or new."""
    moves, left_alone = (len(proposal.moves), len(proposal.left_alone)) if proposal else (0, 0)
    return _gauges(
        ("esp_self_repair_moves", "Partitions that self-repair moves, or would move with rebalance.mode=apply", moves),
        ("esp_self_repair_left_alone", "Partitions that self-repair should move and cannot", left_alone),
    )


def collect_node(
    node: RunningNode, broker: BrokerRole | None, controller: ControllerRole | None, env: Env
) -> Iterator[Metric]:
    """All that is the node's own, by the roles that it has."""
    roles = ((ListenerKind.BROKER, broker), (ListenerKind.CONTROLLER, controller))
    yield from _collect_connections((kind, role.server.connection_count) for kind, role in roles if role is not None)
    if broker is not None:
        yield from _collect_quotas(broker)
    if broker is not None and broker.running is not None:
        yield from _collect_partitions(broker.running.replicas)
        transactions = broker.running.transactions
        yield from _collect_open_transactions(broker.running.replicas, transactions.max_timeout_ms, env.clock.wall_ms())
        yield from _collect_transactions(transactions, env.clock.monotonic_us())
        yield from _collect_unreadable_coordinators(broker.running)
        yield from _collect_verification(broker.running.verifier)
        yield from _collect_compaction(broker.running.cleaner)
        yield from _collect_trash(broker.running.trash_guard)
        yield from _collect_holds(broker.running.holds)
        yield from _collect_letters(broker.running.letters.counts)
    yield from _collect_encryption(env.network.tls_status())
    yield from _collect_log_ins(each for _, role in roles if role is not None for each in role.server.log_ins.items())
    if not node.access.is_open:
        yield from _collect_denials(node.access.denials)
    yield from _collect_quorum(node.raft)
    if node.raft.is_active:
        yield from _collect_cluster(node.metadata.image)
        if controller is not None and controller.running is not None:
            yield from _collect_self_repair(controller.running.driver.proposed_repair)


def _gauges(*gauges: tuple[str, str, float]) -> Iterator[Metric]:
    return (GaugeMetricFamily(name, text, value) for name, text, value in gauges)
