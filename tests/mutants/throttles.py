"""Bugs of replication throttles: who is throttled, what is counted, whose turn it is, and what a changed setting does (KIP-73)."""

from typing import Final

from tests.mutants.mutant import Mutant

_NODES: Final = 3

THROTTLE_MUTANTS: Final = (
    Mutant(
        "leader-throttles-who-is-in-sync",
        "KAFKA-4313",
        "THROTTLE-1",
        "esp.broker.replication.session",
        "        if around.throttles.is_active and not leader.is_awaited(self._replica_id, around.clock.monotonic_us()):\n",
        "        if around.throttles.is_active:\n",
        node_count=_NODES,
    ),
    Mutant(
        "follower-in-sync-throttles-itself",
        "KAFKA-4313",
        "THROTTLE-1",
        "esp.broker.replication.fetcher",
        "        if not self.is_behind or node_id in state.isr:\n",
        "        if not self.is_behind:\n",
        node_count=_NODES,
    ),
    Mutant(
        "leader-lets-all-bytes-go",
        "THROTTLE-1 broken",
        "THROTTLE-1",
        "esp.broker.replication.session",
        "                if self._around.throttles.is_active or item.share is not None:\n",
        "                if item.share is not None:\n",
        node_count=_NODES,
    ),
    Mutant(
        "fetched-bytes-are-not-counted",
        "THROTTLE-1 broken",
        "THROTTLE-1",
        "esp.broker.replication.replication_throttle",
        "        self._quota.take(now_us, share.cost)\n",
        "",
        node_count=_NODES,
    ),
    Mutant(
        "larger-batches-cost-nothing",
        "THROTTLE-3 broken",
        "THROTTLE-3",
        "esp.broker.replication.replication_throttle",
        "            self._quota.correct(self._clock.monotonic_us(), share.cost, used)\n",
        "            self._quota.correct(self._clock.monotonic_us(), share.cost, min(share.reserved, used))\n",
        node_count=_NODES,
    ),
    Mutant(
        "idle-throttle-saves-without-end",
        "THROTTLE-1 broken",
        "THROTTLE-1",
        "esp.replication.replication_quota",
        "max(self._paid_up_us, now_us - self._burst_us) + self._cost_us(size)",
        "self._paid_up_us + self._cost_us(size)",
        node_count=_NODES,
    ),
    Mutant(
        "throttled-partitions-starve",
        "THROTTLE-3 broken",
        "THROTTLE-3",
        "esp.broker.replication.replication_throttle",
        "        if self._waiting and opens_at_us is not None:\n",
        "        if len(self._waiting) == 1 and opens_at_us is not None:\n",
        node_count=_NODES,
    ),
    Mutant(
        "throttles-of-the-start-stay",
        "KIP-73 broken",
        "THROTTLE-1",
        "esp.broker.replication.host",
        "        if changed:\n            self._update_throttles(image)\n",
        "",
        node_count=_NODES,
    ),
    Mutant(
        "removed-throttle-still-holds-back",
        "KIP-73 broken",
        "THROTTLE-3",
        "esp.broker.replication.replication_throttle",
        "        self.is_active = rate != LONG_MAX\n",
        "        if rate == LONG_MAX:\n            return\n        self.is_active = True\n",
        node_count=_NODES,
    ),
)
