"""Bugs of consumer groups of KIP-848: two owners of one partition, epochs that stay behind, assignments that move too much."""

from typing import Final

from tests.mutants.mutant import CONSUMER_GROUPS, Mutant

GROUPS: Final = "KIP-848"

CONSUMER_GROUP_MUTANTS: Final = (
    Mutant(
        "owner-of-a-returned-partition-is-lost",
        "KAFKA-16147",
        GROUPS,
        "esp.groups.consumer.group",
        """            for partition in held - held_before:
                owner = self._owners.setdefault(partition, member_id)
                if owner != member_id:
                    self._rivals.setdefault(partition, []).append(member_id)
""",
        """            for partition in held - held_before:
                owner = self._owners.setdefault(partition, member_id)
                if owner != member_id:
                    self._rivals.setdefault(partition, []).append(member_id)
        if before is not None:
            for partition in before.pending_revocation:
                if current is None or partition not in current.pending_revocation:
                    self._owners.pop(partition, None)
""",
        kind=CONSUMER_GROUPS,
        first=64,
    ),
    Mutant(
        "partition-to-give-back-is-free",
        "KAFKA-15763",
        GROUPS,
        "esp.groups.consumer.group",
        "        held.update(current.pending_revocation)\n",
        "",
        kind=CONSUMER_GROUPS,
    ),
    Mutant(
        "own-partition-counts-as-unreleased",
        "KAFKA-19449",
        GROUPS,
        "esp.groups.consumer.progress",
        "group.owner_of(partition) in (None, member_id))",
        "group.owner_of(partition) is None)",
        kind=CONSUMER_GROUPS,
        equivalent="the member gets it one heartbeat later",
    ),
    Mutant(
        "silence-counts-as-owning-nothing",
        "KIP-848 broken",
        GROUPS,
        "esp.groups.consumer.reconciliation",
        "    return owned is None or any(partition in partitions for partition in owned)\n",
        "    return owned is not None and any(partition in partitions for partition in owned)\n",
        kind=CONSUMER_GROUPS,
    ),
    Mutant(
        "tombstone-of-an-unknown-member",
        "KAFKA-17306",
        GROUPS,
        "esp.groups.consumer.group",
        "            self._about.pop(member_id, None)\n",
        "            del self._about[member_id]\n",
        kind=CONSUMER_GROUPS,
        equivalent="a log is read into its last values, and no tombstone is replayed",
    ),
    Mutant(
        "records-of-a-member-come-in-one-order",
        "KAFKA-17306",
        GROUPS,
        "esp.groups.consumer.group",
        "        if current is not None:\n            self._current[member_id] = current\n",
        "        if current is not None and member_id in self._about:\n            self._current[member_id] = current\n",
        kind=CONSUMER_GROUPS,
        is_gap=True,
        covered_by="tests/unit/groups/consumer/test_group_history.py::"
        "test_a_group_is_what_its_log_says_and_comes_to_rest",
    ),
    Mutant(
        "member-that-could-not-leave-has-no-time",
        "KIP-848 broken",
        GROUPS,
        "esp.groups.keyed_groups",
        "            undone(now)\n",
        "            pass\n",
        kind=CONSUMER_GROUPS,
    ),
    Mutant(
        "operations-outlive-what-they-rest-on",
        "KIP-848 broken",
        GROUPS,
        "esp.groups.consumer.operation",
        "outcome=outcome, groups=(self._group_id,))\n",
        "outcome=outcome)\n",
        kind=CONSUMER_GROUPS,
    ),
    Mutant(
        "empty-group-waits-for-an-assignment",
        "KAFKA-20442",
        GROUPS,
        "esp.groups.consumer.departures",
        "            operation.put(_Type.TARGET_EPOCH, TargetEpochValue(epoch, group.assigned_ms))\n",
        "",
        kind=CONSUMER_GROUPS,
    ),
    Mutant(
        "balanced-group-moves-partitions",
        "KAFKA-18688",
        GROUPS,
        "esp.groups.consumer.assignors",
        "key=lambda one: (-len(owned[one.member_id]), one.member_id))",
        "key=lambda one: one.member_id)",
        kind=CONSUMER_GROUPS,
    ),
    Mutant(
        "commit-in-the-epoch-before-is-refused",
        "before KIP-1251",
        "KIP-1251",
        "esp.groups.consumer.membership",
        "        return since is not None and epoch >= since\n",
        "        return False\n",
        kind=CONSUMER_GROUPS,
    ),
    Mutant(
        "commit-of-a-former-owner",
        "KIP-1251 broken",
        "KIP-1251",
        "esp.groups.consumer.membership",
        "        return since is not None and epoch >= since\n",
        "        return since is None or epoch >= since\n",
        kind=CONSUMER_GROUPS,
    ),
    Mutant(
        "partition-of-another-member-is-free",
        "KIP-848 broken",
        GROUPS,
        "esp.groups.consumer.reconciliation",
        "    granted = {partition: goal.epoch for partition in wanted if is_free(partition)}\n",
        "    granted = dict.fromkeys(wanted, goal.epoch)\n",
        kind=CONSUMER_GROUPS,
    ),
    Mutant(
        "failed-write-is-not-undone",
        "KAFKA-20845",
        GROUPS,
        "esp.groups.keyed_groups",
        "            self._groups.undo(self._inverses)\n            undone(now)\n",
        "            undone(now)\n",
        kind=CONSUMER_GROUPS,
    ),
    Mutant(
        "topics-of-an-expression-change-unnoticed",
        "KAFKA-18916",
        GROUPS,
        "esp.groups.consumer.progress",
        "            and self._seen.get(group.group_id) == version\n"
        "            and (regex is None or (regex in group.regexes and self._resolved.get((group.group_id, regex)) == version))\n",
        "            and (regex in group.regexes if regex is not None else self._seen.get(group.group_id) == version)\n",
        kind=CONSUMER_GROUPS,
    ),
    Mutant(
        "dropped-expression-is-no-change",
        "KAFKA-19899",
        GROUPS,
        "esp.groups.consumer.heartbeats",
        "        has_changed = topics != topics_before\n",
        "        has_changed = topics != topics_before and not (regex_before is not None and about.topic_regex is None)\n",
        kind=CONSUMER_GROUPS,
    ),
    Mutant(
        "member-that-reads-nothing-has-no-place",
        "KAFKA-16930",
        GROUPS,
        "esp.groups.consumer.assignors",
        "        mine = owned[one.member_id] = set()\n",
        "        mine = set[int]()\n        if of_topic:\n            owned[one.member_id] = mine\n",
        kind=CONSUMER_GROUPS,
    ),
    Mutant(
        "current-assignments-are-not-loaded",
        "KIP-848 broken",
        GROUPS,
        "esp.groups.keyed_groups",
        "        self.apply(record)\n        self.commit((record,))\n",
        "        self.apply(record)\n        self.commit((record,) if record.key.type != 8 else ())\n",
        kind=CONSUMER_GROUPS,
    ),
)
