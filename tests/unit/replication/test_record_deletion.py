from dataclasses import dataclass, field

import pytest

from esp.model.errors import ApiError, ErrorCode
from esp.replication.partition_leader import ALL_COMMITTED, delete_records
from esp.settings.topic import TopicSettings


@dataclass
class _Log:
    log_start_offset: int = 3
    high_watermark: int = 10
    log_end_offset: int = 12
    settings: TopicSettings = field(default_factory=TopicSettings)

    def raise_log_start(self, offset):
        self.log_start_offset = max(self.log_start_offset, offset)


@pytest.mark.parametrize(
    ("asked", "meant", "start"), [(5, 5, 5), (10, 10, 10), (ALL_COMMITTED, 10, 10), (2, 2, 3), (0, 0, 3)]
)
def test_the_log_start_rises_to_what_is_asked_for_and_never_falls(asked, meant, start):
    log = _Log()
    assert delete_records(log, asked) == meant
    assert log.log_start_offset == start


@pytest.mark.parametrize("asked", [11, 12, 2**62, -2])
def test_only_what_is_committed_can_be_deleted(asked):
    log = _Log()
    with pytest.raises(ApiError) as raised:
        delete_records(log, asked)
    assert raised.value.code is ErrorCode.offset_out_of_range
    assert log.log_start_offset == 3


@pytest.mark.parametrize(("policy", "is_refused"), [("compact", True), ("compact,delete", False), ("delete", False)])
def test_records_of_topics_that_are_compacted_only_stay(policy, is_refused):
    log = _Log(settings=TopicSettings(cleanup_policy=policy))
    if is_refused:
        with pytest.raises(ApiError) as raised:
            delete_records(log, 99)
        assert raised.value.code is ErrorCode.policy_violation
    else:
        assert delete_records(log, 5) == 5
