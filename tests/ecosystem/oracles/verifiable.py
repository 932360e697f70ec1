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


def judge_verifiable(produced: str, consumed: str, total: int, *, repeats: bool = False) -> list[str]:
    """Return the differences between the two programs' reports.

    Args:
        produced: the producer's output.
        consumed: the consumer's output, with ``--verbose``.
        total: the number of records that the producer was to send.
        repeats: True if the consumer may read a record again, as after a rebalance.
    """
    sent = events(produced)
    acked = places(sent, "producer_send_success")
    read = places(events(consumed), "record_data")
    values = dict(read)
    found = [f"record {event.get('value')} was refused" for event in sent if event.get("name") == "producer_send_error"]
    if len(acked) != total:
        found.append(f"{len(acked)} records were acknowledged, not {total}")
    for place, value in acked:
        if place not in values:
            found.append(f"record {value} at {place} was not consumed")
        elif values[place] != value:
            found.append(f"record {value} at {place} was consumed as {values[place]}")
    strangers = values.keys() - dict(acked).keys()
    found += [f"a record was consumed at {place}, and none was acknowledged" for place in sorted(strangers)]
    if not repeats:
        found += [
            f"{place} was consumed {count} times" for place, count in Counter(p for p, _ in read).items() if count > 1
        ]
    return found
