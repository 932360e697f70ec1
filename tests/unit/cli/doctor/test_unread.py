"""The groups that retention overtakes."""

from collections.abc import Collection, Iterable, Mapping

import pytest

from esp.cli.doctor.unread import find_unread
from esp.doctor.snapshot import UnreadRecords
from esp.model.ids import TopicPartition

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
NOW_MS = 1_000_000
LIMIT_MS = 10_000
EMPTY = dict.fromkeys((T0, T1, U0), 0)
"""Partitions with their bytes."""

DELETED_BY_AGE = {"cleanup.policy": "delete", "retention.ms": str(LIMIT_MS)}


class Logs:
    """Logs from offset 10 to 100, in which a record comes each 100 ms, the last one now."""

    def __init__(self, **committed: dict[TopicPartition, int]) -> None:
        self.committed = committed
        self.silent: set[TopicPartition] = set()
        self.last_ms = NOW_MS

    def group_offsets(self, groups: Iterable[str]) -> dict[str, dict[TopicPartition, int]]:
        return {group: self.committed[group] for group in groups if group in self.committed}

    def first_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return {each: 10 for each in partitions if each not in self.silent}

    def end_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return {each: 100 for each in partitions if each not in self.silent}

    def offsets_since(self, partitions: Collection[TopicPartition], timestamp_ms: int) -> dict[TopicPartition, int]:
        first = max(10, 99 - (self.last_ms - timestamp_ms) // 100)
        return {each: first if first < 100 else -1 for each in partitions if each not in self.silent}


def find(
    logs: Logs, settings: dict[str, str] | None = None, led: Mapping[TopicPartition, int] = EMPTY
) -> tuple[UnreadRecords, ...]:
    told = DELETED_BY_AGE if settings is None else settings
    return find_unread(logs, ["g", "h"], {"t": told, "u": told}, led, NOW_MS)


def test_a_group_that_keeps_up_is_not_found() -> None:
    assert find(Logs(g={T0: 100, T1: 11}, h={})) == ()


def test_records_in_the_last_tenth_of_their_time_are_counted_by_topic() -> None:
    # the records of the last 9,000 ms are those from 9 on: an older one would be gone already, so the log ends earlier here
    logs = Logs(g={T0: 12, T1: 12, U0: 100}, h={U0: 15})
    logs.last_ms = NOW_MS - 1_000
    assert find(logs) == (
        UnreadRecords("g", "t", 0, 2, LIMIT_MS, is_held=False),
        UnreadRecords("h", "u", 0, 1, LIMIT_MS, is_held=False),
    )


def test_where_no_record_is_younger_all_that_is_unread_is_near() -> None:
    logs = Logs(g={T0: 99, T1: 100})
    logs.last_ms = NOW_MS - 9_500
    assert find(logs) == (UnreadRecords("g", "t", 0, 1, LIMIT_MS, is_held=False),)


def test_unread_records_that_are_gone_are_summed_up() -> None:
    assert find(Logs(g={T0: 7, T1: 10, U0: 11})) == (UnreadRecords("g", "t", 3, 0, LIMIT_MS, is_held=False),)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"cleanup.policy": "compact", "retention.ms": str(LIMIT_MS)},
        {"cleanup.policy": "delete", "retention.ms": "-1"},
        {"cleanup.policy": "delete"},
        {"cleanup.policy": "delete", "retention.ms": "0"},
        DELETED_BY_AGE | {"retention.hold.groups": "other, g*", "retention.hold.max.ms": "-1"},
        DELETED_BY_AGE | {"retention.hold.groups": "g"},
    ],
)
def test_records_without_such_a_limit_are_near_none(settings: dict[str, str]) -> None:
    logs = Logs(g={T0: 12})
    logs.last_ms = NOW_MS - 9_500
    assert find(logs, settings) == ()


def test_a_hold_lets_records_live_up_to_its_cap() -> None:
    settings = DELETED_BY_AGE | {"retention.hold.groups": "g", "retention.hold.max.ms": str(2 * LIMIT_MS)}
    logs = Logs(g={T0: 99}, h={T0: 99})
    logs.last_ms = NOW_MS - 9_500
    assert find(logs, settings) == (UnreadRecords("h", "t", 0, 1, LIMIT_MS, is_held=False),)
    logs.last_ms = NOW_MS - 19_000
    assert find(logs, settings)[0] == UnreadRecords("g", "t", 0, 1, 2 * LIMIT_MS, is_held=True)


def test_a_cap_below_the_limit_holds_nothing() -> None:
    settings = DELETED_BY_AGE | {"retention.hold.groups": "g", "retention.hold.max.ms": "5"}
    logs = Logs(g={T0: 99})
    logs.last_ms = NOW_MS - 9_500
    assert find(logs, settings) == (UnreadRecords("g", "t", 0, 1, LIMIT_MS, is_held=False),)


def test_partitions_that_nobody_answers_for_are_left_out() -> None:
    logs = Logs(g={T0: 7, T1: 7})
    logs.silent = {T1}
    assert find(logs) == (UnreadRecords("g", "t", 3, 0, LIMIT_MS, is_held=False),)
    assert find(logs, led={T1: 0}) == ()


KEPT = {"cleanup.policy": "delete", "retention.bytes": "1000"}


@pytest.mark.parametrize(
    ("settings", "limit", "is_held"),
    [
        (KEPT, 1_000, False),
        (KEPT | {"retention.hold.groups": "g", "retention.hold.max.bytes": "2000"}, 2_000, True),
        (KEPT | {"retention.hold.groups": "g", "retention.hold.max.bytes": "10"}, 1_000, False),
        (DELETED_BY_AGE | {"retention.hold.groups": "g*", "retention.hold.max.bytes": "3000"}, 3_000, True),
        (KEPT | {"retention.hold.groups": "other", "retention.hold.max.bytes": "2000"}, 1_000, False),
    ],
)
def test_unread_records_that_fill_nine_tenths_of_what_is_kept_are_found(
    settings: dict[str, str], limit: int, is_held: bool
) -> None:
    logs = Logs(g={T0: 10, T1: 20}, h={T0: 99})
    is_aged = "retention.ms" in settings  # without a cap of its own the hold has no end in time
    near = UnreadRecords("g", "t", 0, 0, -1, is_aged, 1, limit, is_held)
    assert find(logs, settings, {T0: limit * 9 // 10, T1: limit * 9 // 10}) == (near,)
    assert find(logs, settings, {T0: limit * 9 // 10 - 1, T1: limit}) == ()
    assert find(logs, settings, {T0: limit, T1: limit * 2}) == (near._replace(nearly_full_partitions=2),)


@pytest.mark.parametrize("more", [{}, {"retention.hold.max.bytes": "-1"}, {"retention.hold.max.bytes": "100"}])
def test_a_hold_without_a_cap_or_of_a_log_without_limits_has_no_size(more: dict[str, str]) -> None:
    settings = {"cleanup.policy": "delete", "retention.hold.groups": "g"} | more
    settings |= {"retention.bytes": "-1" if "100" in more.values() else "1000"}
    assert find(Logs(g={T0: 10}), settings, {T0: 5_000}) == ()
