"""The reports of Kafka's verifiable producer and consumer, one JSON object a line: what was acknowledged was consumed, at its offset."""

import json
from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple


class Place(NamedTuple):
    """Where a record stands."""

    topic: str
    partition: int
    offset: int


def events(output: str) -> list[dict[str, Any]]:
    """Return the events in a program's output; a last line that is cut short by a kill is none."""
    found = []
    for line in output.splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


def places(reported: Iterable[dict[str, Any]], name: str) -> list[tuple[Place, str]]:
    """Return place and value of each record in the events of one name."""
    return [
        (Place(event["topic"], event["partition"], event["offset"]), event["value"])
        for event in reported
        if event.get("name") == name
    ]


def judge_verifiable(produced: str, consumed: str, total: int, *, nodes_killed: bool = False) -> list[str]:
    """Return the differences between the two programs' reports.

    Args:
        produced: the producer's output.
        consumed: the consumer's output, with ``--verbose``.
        total: the number of records that the producer was to send.
        nodes_killed: True if the producer, which sends each record once only, may get an error for records that are or are not
            written, and the consumer may read a record again, as after a rebalance.
    """
    sent = events(produced)
    acked = places(sent, "producer_send_success")
    refused = {event.get("value") for event in sent if event.get("name") == "producer_send_error"}
    read = places(events(consumed), "record_data")
    values = dict(read)
    found = [] if nodes_killed else [f"record {value} was refused" for value in refused]
    if len(acked) + len(refused) != total:
        found.append(f"{len(acked)} records were acknowledged and {len(refused)} refused, not {total} in all")
    for place, value in acked:
        if place not in values:
            found.append(f"record {value} at {place} was not consumed")
        elif values[place] != value:
            found.append(f"record {value} at {place} was consumed as {values[place]}")
    strangers = values.keys() - dict(acked).keys()
    found += [
        f"record {values[place]} was consumed at {place}, and was never acknowledged"
        for place in sorted(strangers)
        if values[place] not in refused
    ]
    if not nodes_killed:
        found += [
            f"{place} was consumed {count} times" for place, count in Counter(p for p, _ in read).items() if count > 1
        ]
    return found
