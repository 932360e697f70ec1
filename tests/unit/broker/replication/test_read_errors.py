import pytest

from esp.broker.replication.read_errors import READ_ERRORS, code_of
from esp.model.errors import ApiError, CorruptionError, ErrorCode


@pytest.mark.parametrize(
    ("error", "code", "is_logged"),
    [
        (ApiError(ErrorCode.offset_out_of_range), ErrorCode.offset_out_of_range, False),
        (CorruptionError("no batch"), ErrorCode.corrupt_message, True),
        (OSError(5, "EIO"), ErrorCode.kafka_storage_error, True),
    ],
)
def test_each_error_of_a_read_has_a_code_and_ours_are_logged(error, code, is_logged, caplog):
    assert isinstance(error, READ_ERRORS)
    assert code_of(error) is code
    assert bool(caplog.records) is is_logged
