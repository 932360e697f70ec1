import pytest

from esp.model.errors import OperatorError
from esp.rebalance.sizes import format_duration, format_size, parse_size


def test_sizes_are_read_in_powers_of_1024() -> None:
    assert [parse_size("--b", text) for text in ("7", "2K", "1.5m", "1GiB", "1 TB")] == [
        *(7, 2048, 1536 * 1024, 1 << 30, 1 << 40)
    ]
    for text in ("", "x", "-1", "1X", "1.M"):
        with pytest.raises(OperatorError, match="--b"):
            parse_size("--b", text)


def test_sizes_and_durations_are_written_in_units_that_matter() -> None:
    assert [format_size(each) for each in (0, 1023, 1024, 1 << 30)] == ["0 B", "1023 B", "1.0 KiB", "1.0 GiB"]
    assert [format_duration(each) for each in (0.2, 59, 61, 3700)] == ["0 s", "59 s", "1 min 1 s", "1 h 1 min"]
