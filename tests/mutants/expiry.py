"""Bugs of the expiry of committed offsets: an offset in use goes, an expired one comes back, or none goes at all."""

from typing import Final

from tests.mutants.mutant import EXPIRING_OFFSETS, Mutant

EXPIRY: Final = "KIP-211"
"""Kafka's rules for the expiry of offsets, which docs/GROUPS.md repeats."""

EXPIRY_MUTANTS: Final = (
    Mutant(
        "offsets-of-a-stable-group-expire",
        "KIP-211 broken",
        EXPIRY,
        "esp.groups.deletion",
        "        if group.is_subscribed_to(partition.topic):\n            return False\n",
        "",
        kind=EXPIRING_OFFSETS,
    ),
    Mutant(
        "offsets-of-exempt-groups-expire",
        "the rule broken",
        EXPIRY,
        "esp.groups.deletion",
        "        if self._exempt.matches(group.group_id):\n            return False\n",
        "",
        kind=EXPIRING_OFFSETS,
    ),
    Mutant(
        "offsets-expire-during-a-rebalance",
        "KIP-211 broken",
        EXPIRY,
        "esp.groups.deletion",
        """            elif not (
                group.state is GroupState.STABLE
                and group.uses_consumer_protocol
                and group.subscribed_topics is not None
            ):
                return False
""",
        "",
        kind=EXPIRING_OFFSETS,
    ),
    Mutant(
        "commit-time-counts-in-an-empty-group",
        "KIP-211 broken",
        EXPIRY,
        "esp.groups.deletion",
        "                since_ms = value.commit_timestamp_ms if group.state_since_ms is None else group.state_since_ms\n",
        "                since_ms = value.commit_timestamp_ms\n",
        kind=EXPIRING_OFFSETS,
    ),
    Mutant(
        "time-of-emptiness-is-not-loaded",
        "KIP-211 broken",
        EXPIRY,
        "esp.groups.group_log",
        "None if since == NO_TIMESTAMP else since)",
        "None)",
        kind=EXPIRING_OFFSETS,
    ),
    Mutant(
        "asked-retention-is-ignored",
        "KIP-211 broken",
        EXPIRY,
        "esp.groups.deletion",
        "        if value.expire_timestamp_ms != NO_TIMESTAMP:\n            return now.wall_ms >= value.expire_timestamp_ms\n",
        "",
        kind=EXPIRING_OFFSETS,
    ),
    Mutant(
        "offset-expires-under-an-open-transaction",
        "redpanda#31483",
        EXPIRY,
        "esp.groups.deletion",
        "            if partition not in pending and self._is_expired(group, partition, value, now)\n",
        "            if self._is_expired(group, partition, value, now)\n",
        kind=EXPIRING_OFFSETS,
        is_gap=True,
        covered_by="tests/unit/groups/test_transactional_offsets.py::"
        "test_pending_offsets_keep_a_group_and_its_offsets_from_expiring",
    ),
    Mutant(
        "expiry-is-not-written",
        "KIP-211 broken",
        EXPIRY,
        "esp.groups.deletion",
        "            append_changes(self._state, changes, self._now, removed=removed, removed_consumers=consumers)\n",
        "            self._state.offsets.apply(changes)\n",
        kind=EXPIRING_OFFSETS,
    ),
    Mutant(
        "expiry-is-told-before-it-is-committed",
        "PROMISE-3 broken",
        EXPIRY,
        "esp.groups.deletion",
        "            append_changes(self._state, changes, self._now, removed=removed, removed_consumers=consumers)\n",
        "            append_changes(self._state, changes, self._now, removed=removed, removed_consumers=consumers)\n"
        "            self._state.offsets.apply(changes)\n",
        kind=EXPIRING_OFFSETS,
    ),
    Mutant(
        "expired-offsets-are-loaded-again",
        "KIP-211 broken",
        EXPIRY,
        "esp.broker.coordination.latest_records",
        "            before = by_key.pop(key, None)\n            if value is not None:\n",
        "            before = by_key.get(key)\n            if value is not None:\n                by_key.pop(key, None)\n",
        kind=EXPIRING_OFFSETS,
    ),
    Mutant(
        "offsets-expire-once",
        "KIP-211 broken",
        EXPIRY,
        "esp.groups.deletion",
        "    def _on_looked(self, _done: None, now: Now) -> None:\n        self.begin(now)\n",
        "    def _on_looked(self, _done: None, now: Now) -> None:\n        pass\n",
        kind=EXPIRING_OFFSETS,
    ),
)
