from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from kafka.errors import KafkaError, KafkaTimeoutError

from pyspark_jobs import feed_flights
from pyspark_jobs.feed_flights import at_once, at_rate, at_speed, feed, main
from pyspark_jobs.flights_data import Flight

FLIGHTS = [
    Flight(
        id=number,
        event_time=datetime(2013, 1, 1, 10, tzinfo=UTC) + timedelta(minutes=15 * number),
        carrier="UA",
        flight=number,
        tailnum=None if number == 1 else f"N{number}",
        origin="EWR",
        dest="ORD",
        dep_delay=None,
        arr_delay=None,
        air_time=None,
        distance=719,
    )
    for number in range(5)
]


class FakeFuture:
    def __init__(self, error: Exception | None) -> None:
        self.error = error

    def add_errback(self, call):
        if self.error is not None:
            call(self.error)


class FakeProducer:
    def __init__(self, fails_at: int | None = None) -> None:
        self.sent: list[tuple[str, bytes, dict]] = []
        self.flushed = 0
        self.fails_at = fails_at

    def send(self, topic: str, key: bytes, value: bytes) -> FakeFuture:
        self.sent.append((topic, key, msgspec.json.decode(value)))
        return FakeFuture(KafkaTimeoutError("gone") if len(self.sent) - 1 == self.fails_at else None)

    def flush(self) -> None:
        self.flushed = len(self.sent)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that sleeping moves: its one element is the time now."""
    now = [100.0]
    monkeypatch.setattr(feed_flights.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(feed_flights.time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    return now


def test_full_speed_never_waits() -> None:
    assert [at_once()(flight) for flight in FLIGHTS] == [0.0] * 5


def test_a_rate_spaces_the_records_evenly() -> None:
    assert [at_rate(2)(flight) for flight in FLIGHTS] == [0.0, 0.5, 1.0, 1.5, 2.0]


def test_speed_up_keeps_the_flights_distances_in_time() -> None:
    due = at_speed(FLIGHTS, speed_up=900)
    assert [due(flight) for flight in FLIGHTS] == [0.0, 1.0, 2.0, 3.0, 4.0]


def test_flights_are_sent_in_order_with_key_and_value(clock: list[float]) -> None:
    producer = FakeProducer()
    clock[0] += 1
    feed(FLIGHTS, producer, "flights", at_rate(1))
    assert [value["id"] for _, _, value in producer.sent] == [0, 1, 2, 3, 4]
    assert [key for _, key, _ in producer.sent] == [b"N0", b"UA1", b"N2", b"N3", b"N4"]
    assert {topic for topic, _, _ in producer.sent} == {"flights"}
    assert producer.sent[0][2]["event_time"] == "2013-01-01T10:00:00Z"
    assert producer.flushed == 5


def test_feeding_takes_as_long_as_its_pace_says(clock: list[float]) -> None:
    feed(FLIGHTS, FakeProducer(), "flights", at_speed(FLIGHTS, speed_up=90))
    assert clock[0] == pytest.approx(140.0)


def test_progress_tells_rate_and_time_left(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    feed(FLIGHTS, FakeProducer(), "flights", at_rate(0.5))
    first = capsys.readouterr().out.splitlines()[0]
    assert first.startswith("fed 2 of 5 flights (40%), up to 2013-01-01, 1/s, 3 s left")


def test_an_unacknowledged_record_ends_the_feed_with_its_error(clock: list[float]) -> None:
    producer = FakeProducer(fails_at=1)
    with pytest.raises(KafkaError, match="gone"):
        feed(FLIGHTS, producer, "flights", at_once())
    assert len(producer.sent) == 2


@pytest.mark.parametrize(
    "arguments", [("--rate", "0"), ("--speed-up", "-1"), ("--limit", "0"), ("--rate", "1", "--speed-up", "2")]
)
def test_a_senseless_pace_is_refused(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refusal:
        main(arguments)
    assert refusal.value.code == 2
