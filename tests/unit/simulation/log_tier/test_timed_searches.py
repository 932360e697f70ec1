"""Searches by time in a log that rots, and that the check sees a wrong answer."""

from random import Random
from uuid import UUID

import pytest

from esp.model.ids import TopicId, TopicPartition
from esp.simulation.checkers.violation import ViolationError
from esp.simulation.log_tier.timed_searches import check_searches, search_with_rot
from tests.unit.storage.helpers import append, new_disk, new_log

PARTITION = TopicPartition("topic", 0)
TIMES = [1000, 1200, 1100, 1500]


@pytest.mark.parametrize("seed", range(100))
def test_no_bit_of_a_header_or_time_index_misleads_a_search(seed: int) -> None:
    search_with_rot(Random(seed), PARTITION, TopicId(UUID(int=1)))


@pytest.mark.parametrize(
    ("times", "what"),
    [
        pytest.param([1000, 1200, 1300, 1500], "for 1300, at 2", id="a later one is found"),
        pytest.param([1000, 1200, 1100, 1500, 1500, 1600], "None for 1600, at 5", id="nothing is found"),
        pytest.param([1000, 1200, 1100, 1500][::-1], "for 1100, at 0", id="another order"),
    ],
)
def test_an_answer_that_is_not_what_was_written_is_seen(times: list[int], what: str) -> None:
    _, log = new_log(new_disk())
    for timestamp in TIMES:
        append(log, timestamp=timestamp)
    log.high_watermark = log.log_end_offset
    check_searches(log, TIMES, "")
    with pytest.raises(ViolationError, match=what):
        check_searches(log, times, "")
