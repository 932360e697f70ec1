"""Play the flights into a topic in event-time order: at full speed, at a rate, or so many times faster than they happened.

Each record's key is the aircraft, its value the flight as JSON (``schemas.FLIGHT``). The event time stands in the value and
not in the record's timestamp: with timestamps of 2013 a topic's retention would delete every record at once.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta

import msgspec
from kafka import KafkaProducer
from kafka.errors import KafkaError

from pyspark_jobs.flights_data import Flight, read_flights
from pyspark_jobs.topics import Topics

PARTITIONS = 4
PROGRESS_INTERVAL_S = 2.0
LINGER_MS = 20
BATCH_SIZE = 128 * 1024

Due = Callable[[Flight], float]
"""Seconds after the start at which a flight's record is due."""


def at_once() -> Due:
    """Full speed: every record is due at the start."""
    return lambda _flight: 0.0


def at_rate(records_per_s: float) -> Due:
    """So many records a second, evenly."""
    return lambda flight: flight.id / records_per_s


def at_speed(flights: Sequence[Flight], speed_up: float) -> Due:
    """As the flights happened, ``speed_up`` times faster: at 86,400 a day takes a second."""
    start = flights[0].event_time
    unit = timedelta(seconds=speed_up)
    return lambda flight: (flight.event_time - start) / unit


def feed(flights: Sequence[Flight], producer: KafkaProducer, topic: str, due: Due) -> None:
    """Send every flight when it is due, and return when all of them are acknowledged.

    Raises:
        KafkaError: a record was not acknowledged; those after it may not have been sent.
    """
    failures: list[BaseException] = []
    encode = msgspec.json.encode
    start = time.monotonic()
    for flight in _with_progress(flights, start):
        wait_s = due(flight) - (time.monotonic() - start)
        if wait_s > 0:
            time.sleep(wait_s)
        producer.send(topic, key=flight.key.encode(), value=encode(flight)).add_errback(failures.append)
        if failures:
            break
    producer.flush()
    if failures:
        raise failures[0]
    elapsed_s = time.monotonic() - start
    print(f"fed {len(flights):,} flights into {topic} in {elapsed_s:.1f} s, {len(flights) / elapsed_s:,.0f}/s")


def main(argv: Sequence[str] | None = None) -> int:
    """Feed the topic; exit status 1 when it holds records already or not every record was acknowledged."""
    arguments = _parse(argv)
    try:
        with Topics(arguments.bootstrap_server) as topics:
            topics.ensure(arguments.topic, arguments.partitions)
            held = topics.record_count(arguments.topic)
        if held and not arguments.append:
            raise SystemExit(
                f"Topic {arguments.topic} holds {held:,} records already: a second feed would double its flights."
                " Choose another --topic, or pass --append."
            )
        flights = read_flights(arguments.limit)
        due = at_once()
        if arguments.rate:
            due = at_rate(arguments.rate)
        elif arguments.speed_up:
            due = at_speed(flights, arguments.speed_up)
        producer = KafkaProducer(
            bootstrap_servers=arguments.bootstrap_server,
            client_id="feed-flights",
            acks="all",
            linger_ms=LINGER_MS,
            batch_size=BATCH_SIZE,
        )
        try:
            feed(flights, producer, arguments.topic, due)
        finally:
            producer.close()
    except KafkaError as error:
        print(f"Feeding {arguments.topic} at {arguments.bootstrap_server} failed: {error!r}", file=sys.stderr)
        return 1
    return 0


def _with_progress(flights: Sequence[Flight], start: float) -> Iterator[Flight]:
    """Yield the flights, and print every few seconds how far they are, how fast, and how long the rest will take."""
    next_report = start + PROGRESS_INTERVAL_S
    for flight in flights:
        yield flight
        now = time.monotonic()
        if now >= next_report:
            next_report = now + PROGRESS_INTERVAL_S
            done = flight.id + 1
            rate = done / (now - start)
            print(
                f"fed {done:,} of {len(flights):,} flights ({done / len(flights):.0%}), up to {flight.event_time:%Y-%m-%d},"
                f" {rate:,.0f}/s, {(len(flights) - done) / rate:,.0f} s left",
                flush=True,
            )


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="feed_flights", description="Play the flights of 2013 into a topic.")
    parser.add_argument("--bootstrap-server", default="127.0.0.1:9092")
    parser.add_argument("--topic", default="flights")
    parser.add_argument("--partitions", type=int, default=PARTITIONS, help="of the topic, if it is to be created")
    parser.add_argument("--limit", type=_positive_int, help="only the first so many flights of the year")
    parser.add_argument("--append", action="store_true", help="feed even if the topic holds records")
    pace = parser.add_mutually_exclusive_group()
    pace.add_argument("--rate", type=_positive, help="records per second; default: full speed")
    pace.add_argument(
        "--speed-up", type=_positive, help="times faster than the flights happened (86400: a day a second)"
    )
    return parser.parse_args(argv)


def _positive(text: str) -> float:
    value = float(text)
    if value <= 0:
        raise argparse.ArgumentTypeError(f"{text} is not above 0")
    return value


def _positive_int(text: str) -> int:
    value = int(text)
    if value <= 0:
        raise argparse.ArgumentTypeError(f"{text} is not above 0")
    return value


if __name__ == "__main__":
    sys.exit(main())
