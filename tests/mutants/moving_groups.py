"""Bugs of groups that move between the classic and the consumer protocol, member by member."""

from typing import Final

from tests.mutants.mutant import MOVING_GROUPS, Mutant

MOVES: Final = "moves between protocols"

MOVING_GROUP_MUTANTS: Final = (
    Mutant(
        "classic-member-keeps-the-expression-of-its-predecessor",
        "KAFKA-19720",
        MOVES,
        "esp.groups.consumer.classic_members",
        "        topic_regex=None,\n",
        "        topic_regex=None if before is None else before.topic_regex,\n",
        kind=MOVING_GROUPS,
        is_gap=True,
        covered_by="tests/unit/groups/consumer/test_migration.py::"
        "test_a_classic_client_that_takes_the_place_of_a_consumer_has_no_expression",
    ),
    Mutant(
        "way-back-without-a-rebalance",
        "KAFKA-19546, KAFKA-17317",
        MOVES,
        "esp.groups.consumer.departures",
        "needs_rebalance=needs_rebalance or not is_at_rest)",
        "needs_rebalance=False)",
        kind=MOVING_GROUPS,
        is_gap=True,
        covered_by="tests/unit/groups/consumer/test_migration.py::"
        "test_with_another_subscription_the_members_join_again",
    ),
    Mutant(
        "way-back-that-failed-is-not-undone",
        "KAFKA-20845",
        MOVES,
        "esp.groups.consumer.operation",
        "            elif successor is not None and error is not None:\n"
        "                self._rebalances.kill(successor, error, now.wall_ms)\n",
        "",
        kind=MOVING_GROUPS,
        is_gap=True,
        covered_by="tests/unit/groups/consumer/test_migration.py::test_a_way_back_that_the_log_does_not_take_is_undone",
    ),
    Mutant(
        "classic-group-is-not-forgotten",
        "a group of two protocols",
        MOVES,
        "esp.groups.consumer.operation",
        "            records.insert(0, deleted_group_record(replaced))\n",
        "",
        kind=MOVING_GROUPS,
        is_gap=True,
        covered_by="tests/unit/groups/consumer/test_migration.py::"
        "test_a_consumer_brings_the_members_of_a_classic_group_along",
    ),
    Mutant(
        "partition-that-is-being-given-back-is-free-on-the-way",
        "KIP-429, KIP-848 broken",
        MOVES,
        "esp.groups.consumer.conversion",
        "        returned = claimed[member_id] - taken\n",
        "        returned = frozenset[TopicIdPartition]()\n",
        kind=MOVING_GROUPS,
        is_gap=True,
        covered_by="tests/unit/groups/consumer/test_migration.py::"
        "test_a_partition_that_a_cooperative_member_is_about_to_give_back_is_not_free",
    ),
    Mutant(
        "members-come-along-with-nothing",
        "KIP-848 broken",
        MOVES,
        "esp.groups.consumer.conversion",
        "        assigned[member.member_id] = _identify(assignment.partitions, catalog)\n",
        "        assigned[member.member_id] = _identify((), catalog)\n",
        kind=MOVING_GROUPS,
    ),
    Mutant(
        "classic-member-is-not-told-to-join-again",
        "KIP-848 broken",
        MOVES,
        "esp.groups.consumer.classic_members",
        "            _is_behind(group, member)\n            or ",
        "            ",
        kind=MOVING_GROUPS,
    ),
    Mutant(
        "classic-member-says-nothing-of-what-it-has",
        "KIP-848 broken",
        MOVES,
        "esp.groups.consumer.classic_members",
        "        owned = owned_of(subscription, self._state.topics)\n",
        "        owned = frozenset[TopicIdPartition]()\n",
        kind=MOVING_GROUPS,
        is_gap=True,
        covered_by="tests/unit/groups/consumer/test_migration.py::"
        "test_a_cooperative_member_gives_back_what_it_must_before_another_one_gets_it",
    ),
    Mutant(
        "classic-member-gets-its-target-at-once",
        "KIP-848 broken",
        MOVES,
        "esp.groups.consumer.classic_members",
        "classic_assignment(member, frozenset(member.current.assigned), group, self._state.topics)",
        "classic_assignment(member, group.target_of(member.member_id), group, self._state.topics)",
        kind=MOVING_GROUPS,
        is_gap=True,
        covered_by="tests/unit/groups/consumer/test_migration.py::test_a_classic_client_joins_a_consumer_group",
    ),
    Mutant(
        "commit-of-an-old-generation",
        "KIP-848 broken",
        MOVES,
        "esp.groups.consumer.membership",
        "    if is_classic:\n        raise ApiError(ErrorCode.illegal_generation)\n",
        "    if is_classic:\n        return lambda _partition: True\n",
        kind=MOVING_GROUPS,
        is_gap=True,
        covered_by="tests/unit/groups/consumer/test_migration.py::"
        "test_members_of_both_protocols_commit_and_fetch_offsets",
    ),
    Mutant(
        "group-moves-to-a-generation-of-the-past",
        "KIP-848 broken",
        MOVES,
        "esp.groups.consumer.conversion",
        "    classic.generation_id = group.epoch\n",
        "    classic.generation_id = 1\n",
        kind=MOVING_GROUPS,
        is_gap=True,
        covered_by="tests/unit/groups/consumer/test_migration.py::"
        "test_the_group_is_classic_again_when_the_last_consumer_goes",
    ),
    Mutant(
        "waiting-members-are-forgotten-on-the-way",
        "KIP-848 broken",
        MOVES,
        "esp.groups.consumer.operation",
        "            self._rebalances.suspend(replaced)\n",
        "",
        kind=MOVING_GROUPS,
        is_gap=True,
        covered_by="tests/unit/groups/consumer/test_migration.py::test_waiting_members_are_asked_to_join_again",
    ),
    Mutant(
        "rebalance-under-way-is-lost-on-the-way",
        "KIP-848 broken",
        MOVES,
        "esp.groups.consumer.heartbeats",
        "has_changed=has_changed or is_rebalancing)",
        "has_changed=has_changed)",
        kind=MOVING_GROUPS,
        is_gap=True,
        covered_by="tests/unit/groups/consumer/test_migration.py::"
        "test_a_rebalance_that_is_under_way_is_not_lost_to_a_consumer_in_a_static_members_place",
    ),
    Mutant(
        "group-without-a-generation-moves-in-epoch-0",
        "KIP-848 broken",
        MOVES,
        "esp.groups.consumer.conversion",
        "    epoch = max(group.generation_id, FIRST_EPOCH)  #",
        "    epoch = group.generation_id  #",
        kind=MOVING_GROUPS,
    ),
)
