"""The sink's decisions as tables: what was committed, what comes, and what is done."""

import pytest

from esp.consumer.group_messages import Committed
from esp.sink.decision import (
    Action,
    BatchPlan,
    Place,
    RefusedError,
    check_repeated,
    decide_division,
    decide_share,
    is_divided,
    plan_batch,
)
from esp.sink.share import NO_BATCH, Share, group_of, read_share, transactional_id_of

PLACE = Place("flights", "t")
UNUSED = Share(NO_BATCH, 0, 0, 4).to_committed()
COMING = Share(17, 5_018, 0xFEED, 4)


def committed(batch: int, rows: int = 5_018, keys: int = 0xFEED, partitions: int = 4) -> Committed:
    return Share(batch, rows, keys, partitions).to_committed()


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        (None, Action.WRITE),
        (committed(0), Action.WRITE),
        (committed(16), Action.WRITE),
        (committed(16, rows=1, keys=2), Action.WRITE),
        (Share(16, 1, 2, 3, 4).to_committed(), Action.WRITE),
        (Share(NO_BATCH, 0, 0, 4).to_committed(), Action.WRITE),
        (
            committed(16, partitions=3),
            "batch 17 is divided among 3 partitions of topic t by another driver, and among 4 here: ",
        ),
        (
            Share(16, 1, 2, 4, 5).to_committed(),
            "batch 17 is divided among 5 partitions of topic t by another driver, and among 4 here: ",
        ),
        (committed(17), Action.SKIP),
        (committed(17, rows=5_020), "batch 17 is not repeatable: partition 3 had 5,020 rows, now 5,018: "),
        (committed(17, keys=1), "batch 17 is not repeatable: partition 3 had 5,018 rows with other keys: "),
        (committed(17, partitions=3), "batch 17 is not repeatable: partition 3 was one of 3, now of 4: "),
        (
            committed(18),
            (
                "sink flights has written batch 18 to partition 3 of topic t, and the query is at batch 17: its checkpoint was deleted "
                "or set back: choose another name for the sink, or make it forget: esp spark sinks reset flights"
            ),
        ),
        (
            Committed(18, ""),
            "group esp-sink.flights has offset 18 of partition 3 of topic t, which no sink committed: ",
        ),
        (
            Committed(3, "{}"),
            "group esp-sink.flights has offset 3 of partition 3 of topic t, which no sink committed: ",
        ),
    ],
    ids=str,
)
def test_a_share_is_written_skipped_or_refused_by_what_was_committed(
    before: Committed | None, expected: Action | str
) -> None:
    if isinstance(expected, Action):
        assert decide_share(PLACE, 3, before, COMING) is expected
        return
    with pytest.raises(RefusedError) as caught:
        decide_share(PLACE, 3, before, COMING)
    assert str(caught.value).startswith(expected)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("before", "partitions", "batch", "may_begin", "expected"),
    [
        ({}, 4, 0, False, BatchPlan(4, {})),
        ({}, 4, 17, True, BatchPlan(4, {})),
        ({}, 4, 17, False, "sink flights has no offsets of topic t, and the query is at batch 17: "),
        ({2: committed(3)}, 4, 17, False, BatchPlan(4, {})),
        ({2: committed(16)}, 6, 17, False, BatchPlan(6, {})),  # the topic grew
        (
            {0: UNUSED, 1: UNUSED},
            4,
            17,
            False,
            "sink flights has no offsets of topic t, and the query is at batch 17: ",
        ),
        ({0: UNUSED, 1: UNUSED}, 4, 17, True, BatchPlan(4, {})),
        (dict.fromkeys(range(4), UNUSED), 4, 17, False, BatchPlan(4, {})),  # no batch had rows yet
        (dict.fromkeys(range(4), UNUSED), 6, 17, False, BatchPlan(6, {})),  # likewise, and the topic grew
        (
            {**dict.fromkeys(range(3), UNUSED), 3: Share(NO_BATCH, 0, 0, 4, 6).to_committed()},
            6,
            17,
            False,
            "sink flights has no offsets of topic t, and the query is at batch 17: ",
        ),  # rows may have been divided among six, and the offsets of two have expired
        (
            {2: Share(16, 1, 2, 4, 6).to_committed()},
            4,
            17,
            False,
            "batch 17 is divided among 6 partitions of topic t, which has 4: ",
        ),  # a broker does not know yet that it grew
        (
            {2: committed(17)},
            6,
            17,
            False,
            BatchPlan(4, {2: Share(17, 5_018, 0xFEED, 4)}),
        ),  # likewise, and the batch comes again
        (
            {0: committed(16), 2: committed(18)},
            4,
            17,
            True,
            "sink flights has written batch 18 to partition 2 of topic t, ",
        ),
        ({2: committed(0)}, 3, 0, False, "batch 0 was divided among 4 partitions of topic t, which has 3: "),
        (
            {2: committed(0), 3: committed(0, partitions=5)},
            6,
            0,
            False,
            "batch 0 was divided among 4 and 5 partitions of topic t, which has 6: ",
        ),
        ({2: Committed(9, "x")}, 4, 17, False, "group esp-sink.flights has offset 9 of partition 2 of topic t, "),
    ],
    ids=str,
)
def test_a_batch_is_planned_or_refused_by_what_was_committed(
    before: dict[int, Committed], partitions: int, batch: int, may_begin: bool, expected: BatchPlan | str
) -> None:
    if isinstance(expected, BatchPlan):
        assert plan_batch(PLACE, before, partitions, batch, may_begin=may_begin) == expected
        return
    with pytest.raises(RefusedError) as caught:
        plan_batch(PLACE, before, partitions, batch, may_begin=may_begin)
    assert str(caught.value).startswith(expected)


def test_a_batch_that_comes_again_must_have_the_rows_that_are_committed() -> None:
    plan = BatchPlan(4, {1: Share(7, 2, 5, 4), 2: Share(7, 3, 6, 4)})
    check_repeated(PLACE, plan, 7, {0: Share(7, 9, 9, 4), **plan.done})
    with pytest.raises(RefusedError, match="batch 7 is not repeatable: partition 2 had 3 rows, now 0: "):
        check_repeated(PLACE, plan, 7, {1: Share(7, 2, 5, 4)})
    with pytest.raises(RefusedError, match="batch 7 is not repeatable: partition 1 had 2 rows with other keys: "):
        check_repeated(PLACE, plan, 7, {**plan.done, 1: Share(7, 2, 4, 4)})


@pytest.mark.parametrize(
    ("before", "is_proven", "expected"),
    [
        (None, False, Share(NO_BATCH, 0, 0, 4)),
        (committed(16), False, None),
        (committed(17, partitions=3), False, None),  # its share of the batch stands
        (committed(16, rows=5, keys=6, partitions=3), False, Share(16, 5, 6, 3, 4)),
        (committed(16, partitions=5), False, None),  # another driver knows that the topic grew
        (Share(16, 5, 6, 3, 5).to_committed(), False, None),
        (Share(16, 5, 6, 3, 5).to_committed(), True, Share(16, 5, 6, 3, 4)),
    ],
    ids=str,
)
def test_the_number_of_partitions_is_written_where_another_stands_and_shrinks_with_a_proof_only(
    before: Committed | None, is_proven: bool, expected: Share | None
) -> None:
    assert decide_division(PLACE, 3, before, 17, 4, is_proven=is_proven) == expected


def test_a_batch_is_divided_when_all_its_partitions_say_so() -> None:
    plan = BatchPlan(3, {})
    three = committed(16, partitions=3)
    assert is_divided({0: three, 1: Share(16, 5, 6, 2, 3).to_committed(), 2: committed(17, partitions=3)}, plan, 17)
    assert not is_divided({0: three, 1: three}, plan, 17)
    assert not is_divided({0: three, 1: three, 2: committed(16)}, plan, 17)
    assert is_divided({0: three, 1: three, 2: three, 3: committed(16)}, plan, 17)


def test_what_is_committed_is_read_again() -> None:
    share = Share(17, 5_020, 2**64 - 1, 3)
    assert share.to_committed() == Committed(18, '{"batch":17,"rows":5020,"keys":"ffffffffffffffff","partitions":3}')
    assert read_share(share.to_committed()) == share
    grown = share._replace(partitions_next=5)
    assert grown.to_committed().metadata.endswith('"partitions":3,"next":5}')
    assert read_share(grown.to_committed()) == grown
    assert read_share(UNUSED) == Share(NO_BATCH, 0, 0, 4)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "null",
        '{"batch":17}',
        '{"batch":17,"rows":"1","keys":"00","partitions":3}',
        '{"batch":17,"rows":-1,"keys":"00","partitions":3}',
        '{"batch":17,"rows":1,"keys":"zz","partitions":3}',
        '{"batch":17,"rows":1,"keys":3,"partitions":3}',
        '{"batch":16,"rows":1,"keys":"00","partitions":3}',
        '{"batch":17,"rows":1,"keys":"00","partitions":3,"next":"4"}',
    ],
)
def test_texts_of_other_programs_are_no_shares(text: str) -> None:
    assert read_share(Committed(18, text)) is None


def test_names_are_those_that_brokers_keep_offsets_of() -> None:
    assert group_of("flights") == "esp-sink.flights"
    assert transactional_id_of("flights", "t", 3) == "esp-sink.flights.t.3"
