"""INV-THROTTLE: replicas that are not in sync are copied no faster than the throttles allow, and no other replica is held back (KIP-73).

Looks at each turn of each partition as it happens, in the sessions of leaders and the fetchers of followers: which replica is throttled
at all hangs on moments (THROTTLE-1). The bytes go into a bucket of the checker's own, which empties at the rate that the node's settings
say: that of an operator's throttle, or the budget of self-repair (REPAIR-4).
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from esp.broker.replication.fetcher import FollowedPartition, PartitionKey, ReplicaFetcher
from esp.broker.replication.hosted_partition import HostedPartition
from esp.broker.replication.replication_throttle import BURST_US, FETCH_US, ReplicationThrottle
from esp.broker.replication.session import ReplicaSession, SessionPartition
from esp.broker.replication.throttles import DirectionThrottles
from esp.model.buffers import Buffer
from esp.model.errors import ApiError
from esp.model.ids import NodeId
from esp.protocol.fetch_codec import FetchResult
from esp.protocol.follower_fetch_codec import FetchedPartition
from esp.records.batch_header import read_header
from esp.settings.setting import LONG_MAX
from esp.simulation.checkers.violation import ViolationError
from esp.simulation.excuses import Excuse, note

_S: Final = 1_000_000
_NO_RATES: Final = (LONG_MAX,) * 3


class Rates(NamedTuple):
    """The rates by a node's settings, in bytes per second; ``LONG_MAX`` is no throttle."""

    leader: int
    follower: int
    repair: int
    """``rebalance.bytes.per.second.max``: of copies that self-repair makes, in each direction."""
    window_us: int
    """The quota window: what is owed is forgotten beyond it (THROTTLE-3)."""


class Meter:
    """The bytes that one node takes in one direction by one throttle.

    The quota is asked when a fetch is let go, and charges it then; its bytes are seen when they come. So what has come since nothing was
    owed may be, beyond the rate and the burst, what the quota did not charge in that time: fetches that were on their way when it began,
    which it had charged before, and those that were on their way when it was asked last, whose size it learns afterwards. Each partition
    has one of these at most, and each is a share of a second's bytes or a single batch.

    Fetches that were let go under another rate are not counted. Such a one may also come smaller than what it was charged, which lets
    the quota go ahead by what it owes then, one fetch, and the burst.

    Args:
        rate: bytes per second.
        window_us: the quota window.
    """

    def __init__(self, rate: int, window_us: int) -> None:
        self.rate = rate
        self._window_us = window_us
        self._debt = 0.0
        self._seen_us = 0
        self._batch_bytes = 0
        """The largest first batch of a fetch."""
        self._under_way: dict[object, int] = {}
        """Fetches that the quota has let go and that are not counted yet, and when it did."""
        self._earlier: dict[object, None] = {}
        """Fetches under way that it let go under another rate."""
        self._at_rest = 0
        """The number of them that were on their way when nothing was owed."""
        self._let_go = 0
        """The number that were on their way when the last of them was let go."""

    def set_rate(self, rate: int) -> None:
        """Go by another rate; nothing happens if it is the same."""
        if rate == self.rate:
            return
        self.rate = rate
        self._debt = 0.0
        self._earlier |= dict.fromkeys(self._under_way)
        self._under_way.clear()

    def on_let_go(self, now_us: int, fetch: object) -> None:
        """The quota has let a fetch go; nothing happens if it is on its way, as it is not asked again for that one."""
        if fetch not in self._under_way and fetch not in self._earlier:
            self._under_way[fetch] = now_us
            self._let_go = len(self._under_way)

    def on_given_up(self, fetch: object) -> None:
        """A fetch is throttled no more."""
        self._under_way.pop(fetch, None)
        self._earlier.pop(fetch, None)

    def on_bytes(self, now_us: int, fetch: object, records: Buffer) -> str:
        """Bytes were taken; returns what is wrong, or nothing."""
        if fetch in self._earlier:
            del self._earlier[fetch]
            note(Excuse.EARLIER_FETCHES)
            return ""
        rate = self.rate / _S
        self._debt = max(0.0, self._debt - (now_us - self._seen_us) * rate)
        self._seen_us = now_us
        if not self._debt:
            self._at_rest = sum(since_us < now_us for since_us in self._under_way.values()) + 2 * len(self._earlier)
        self._under_way.pop(fetch, None)
        self._batch_bytes = max(self._batch_bytes, read_header(records).size)
        unknown = self._at_rest + self._let_go
        allowed = BURST_US * rate + unknown * max(FETCH_US * rate, self._batch_bytes)
        owed = self._debt
        self._debt += len(records)
        if self.rate:
            self._debt = min(self._debt, (self._window_us + BURST_US) * rate)
        if owed <= allowed + 1:
            return ""
        return f"{len(records)} bytes are taken when {owed:.0f} are owed at {self.rate} bytes a second"


class ThrottleChecker:
    """Watches the fetches of leaders and followers, with a meter for each node, direction and throttle.

    Args:
        rates: of a node; None while it has no settings.
        report: takes what is found.
    """

    def __init__(self, rates: Callable[[NodeId], Rates | None], report: Callable[[ViolationError], None]) -> None:
        self.throttled_bytes = 0
        """The number of bytes that were counted."""
        self._rates = rates
        self._report = report
        self._meters: dict[ReplicationThrottle, Meter] = {}
        self._fetches: dict[FollowedPartition, Meter] = {}
        self._cold_reads: dict[SessionPartition, tuple[Meter, object]] = {}
        self._told: dict[FollowedPartition, int] = {}
        """The leader's high watermark, from an answer that is being taken in."""
        self._behind: dict[FollowedPartition, bool] = {}
        """True for a partition if the last answer had more committed than is here then."""

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Look at all sessions and fetchers of this process, until the block ends."""
        look_at, encode = ReplicaSession._look_at, ReplicaSession._encode  # noqa: SLF001 - from outside, as probe does
        is_let, take = ReplicaFetcher._is_let, ReplicaFetcher._take_partition  # noqa: SLF001

        def watch_look(session: ReplicaSession, item: SessionPartition, total: int) -> tuple[FetchResult | None, bool]:
            result, is_cold = look_at(session, item, total)
            self._on_look(session, item, result, is_cold=is_cold)
            return result, is_cold

        def watch_encode(session: ReplicaSession, look: Any) -> Any:
            self._on_answer(session, look)
            return encode(session, look)

        def watch_let(fetcher: ReplicaFetcher, key: PartitionKey, item: FollowedPartition) -> bool:
            has_turn = is_let(fetcher, key, item)
            self._on_asked(fetcher, item, has_turn=has_turn)
            return has_turn

        def watch_take(
            fetcher: ReplicaFetcher, key: PartitionKey, item: FollowedPartition, fetched: FetchedPartition, now_ms: int
        ) -> None:
            self._on_fetched(fetcher, item, fetched)
            is_told = not fetched.error_code and fetched.diverging_epoch is None
            if is_told:
                self._told[item] = fetched.high_watermark
            take(fetcher, key, item, fetched, now_ms)
            if is_told:
                self._note_behind(item)

        _patch(watch_look, watch_encode, watch_let, watch_take)
        try:
            yield
        finally:
            _patch(look_at, encode, is_let, take)

    # --- what leaders send ---------------------------------------------------------------------------------------------------------

    def _on_look(
        self, session: ReplicaSession, item: SessionPartition, result: FetchResult | None, *, is_cold: bool
    ) -> None:
        around = session._around  # noqa: SLF001
        rates = self._rates(around.node_id)
        if rates is None or rates[:3] == _NO_RATES or (result is not None and result.error_code):
            return
        replica = session._replica_id  # noqa: SLF001
        try:
            hosted = around.find(item.wanted.topic, item.wanted.partition)
        except ApiError:
            return
        leader, now_us = hosted.leader, around.clock.monotonic_us()
        if leader is None or leader.follower(replica) is None:
            return
        is_of_epoch = leader.leader_epoch == item.wanted.current_leader_epoch
        is_waiting = item.share is not None and item.share.is_waiting
        is_held_back = result is None and is_of_epoch and is_waiting
        if is_held_back and replica in leader.maximal_isr:
            self._fail(f"node {around.node_id}", f"{hosted.name} is held back from {replica}, which is in sync")
        is_reserved = item.share is not None and item.share.reserved > 0  # perhaps for an answer with more room
        is_let = result is not None and (is_cold or result.records or is_reserved)
        if not (is_held_back or is_let) or leader.is_awaited(replica, now_us):
            return
        listed = hosted.log.settings.leader_replication_throttled_replicas
        meter = self._meter(
            around.throttles,
            rates.leader,
            rates,
            is_listed=listed.covers(hosted.name.partition, around.node_id),
            is_marked=replica in leader.state.adding_replicas and _is_marked(hosted, replica),
        )
        if is_held_back and meter is None:
            self._fail(f"node {around.node_id}", f"{hosted.name} is held back from {replica} by no throttle")
        if meter is None or result is None:
            return
        fetch = (hosted, replica)
        meter.on_let_go(now_us, fetch)
        if is_cold:
            self._cold_reads[item] = meter, fetch
        elif result.records:
            self._count(meter, now_us, fetch, result.records, f"node {around.node_id}, {hosted.name} to {replica}")

    def _on_answer(self, session: ReplicaSession, look: Any) -> None:
        if not self._cold_reads:
            return
        around = session._around  # noqa: SLF001
        for key in look.cold:
            item = session._items.get(key)  # noqa: SLF001
            known = self._cold_reads.pop(item, None) if item is not None else None
            records = look.results[key].records
            if known is not None and records:
                meter, fetch = known
                self._count(
                    meter, around.clock.monotonic_us(), fetch, records, f"node {around.node_id}, {key[1]} of {key[0]}"
                )

    # --- what followers fetch ------------------------------------------------------------------------------------------------------

    def _on_asked(self, fetcher: ReplicaFetcher, item: FollowedPartition, *, has_turn: bool) -> None:
        self._note_behind(item)
        node_id = fetcher._settings.node_id  # noqa: SLF001
        is_in_sync = node_id in item.follower.state.isr
        if is_in_sync and not has_turn:
            self._fail(f"node {node_id}", f"{item.hosted.name} is in sync here, and waits for the throttle")
        rates = self._rates(node_id)
        meter = None
        if rates is not None and not is_in_sync and self._behind.get(item, True):
            listed = item.hosted.log.settings.follower_replication_throttled_replicas
            meter = self._meter(
                fetcher._throttles,  # noqa: SLF001
                rates.follower,
                rates,
                is_listed=listed.covers(item.hosted.name.partition, node_id),
                is_marked=node_id in item.follower.state.adding_replicas and _is_marked(item.hosted, node_id),
            )
        if rates is not None and meter is None and not has_turn and not is_in_sync:
            self._fail(f"node {node_id}", f"{item.hosted.name} waits for no throttle")
        known = self._fetches.get(item)
        if known is not None and known is not meter:
            del self._fetches[item]
            known.on_given_up(item.hosted)
        if meter is not None and has_turn:
            self._fetches[item] = meter
            meter.on_let_go(fetcher._env.clock.monotonic_us(), item.hosted)  # noqa: SLF001

    def _note_behind(self, item: FollowedPartition) -> None:
        told = self._told.pop(item, None)
        if told is not None:
            self._behind[item] = told > item.hosted.log.log_end_offset

    def _on_fetched(self, fetcher: ReplicaFetcher, item: FollowedPartition, fetched: FetchedPartition) -> None:
        meter = self._fetches.get(item)
        if meter is None or not fetched.records:
            return
        now_us = fetcher._env.clock.monotonic_us()  # noqa: SLF001
        who = f"node {fetcher._settings.node_id}, {item.hosted.name}"  # noqa: SLF001
        self._count(meter, now_us, item.hosted, fetched.records, who)

    # -------------------------------------------------------------------------------------------------------------------------------

    def _meter(
        self, throttles: DirectionThrottles, listed_rate: int, rates: Rates, *, is_listed: bool, is_marked: bool
    ) -> Meter | None:
        """The bucket that a copy out of sync goes by: an operator's, or that of self-repair (REPAIR-4); None if it may go as it likes."""
        for throttle, rate in ((throttles.listed, listed_rate), (throttles.repair, rates.repair)):
            meter = self._meters.get(throttle)
            if meter is None:
                self._meters[throttle] = Meter(rate, rates.window_us)
            else:
                meter.set_rate(rate)
        if is_listed and listed_rate != LONG_MAX:
            return self._meters[throttles.listed]
        if is_marked and rates.repair != LONG_MAX:
            return self._meters[throttles.repair]
        return None

    def _count(self, meter: Meter, now_us: int, fetch: object, records: Buffer, who: str) -> None:
        self.throttled_bytes += len(records)
        problem = meter.on_bytes(now_us, fetch, records)
        if problem:
            self._fail(who, problem)

    def _fail(self, who: str, what: str) -> None:
        self._report(ViolationError("INV-THROTTLE", who, what))


def _is_marked(hosted: HostedPartition, replica: NodeId) -> bool:
    return hosted.log.settings.rebalance_throttled_replicas.covers(hosted.name.partition, replica)


def _patch(look_at: Any, encode: Any, is_let: Any, take: Any) -> None:
    ReplicaSession._look_at = look_at  # type: ignore[method-assign]  # noqa: SLF001
    ReplicaSession._encode = encode  # type: ignore[method-assign]  # noqa: SLF001
    ReplicaFetcher._is_let = is_let  # type: ignore[method-assign]  # noqa: SLF001
    ReplicaFetcher._take_partition = take  # type: ignore[method-assign]  # noqa: SLF001
