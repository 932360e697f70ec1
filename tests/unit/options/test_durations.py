import pytest

from esp.options.durations import parse_duration_ms
from esp.options.errors import OptionError


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("250", 250),
        ("250ms", 250),
        ("1 millisecond", 1),
        ("30s", 30_000),
        ("15m", 900_000),
        ("15min", 900_000),
        (" 10 minutes ", 600_000),
        ("1 hour", 3_600_000),
        ("2H", 7_200_000),
        ("1d", 86_400_000),
    ],
)
def test_durations_are_read_as_spark_writes_them(text: str, milliseconds: int) -> None:
    assert parse_duration_ms("o", text) == milliseconds


@pytest.mark.parametrize("text", ["", "soon", "-1s", "1.5h", "3 weeks", "ms", "1mss", "1 s s", "٣s"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(OptionError, match="it is no duration: write a whole number with ms, s, m, h or d"):
        parse_duration_ms("maxTimePerTrigger", text)


@pytest.mark.parametrize("text", ["0", "0 minutes"])
def test_a_duration_lasts(text: str) -> None:
    with pytest.raises(OptionError, match="it does not last: write 1ms or more"):
        parse_duration_ms("maxTimePerTrigger", text)
