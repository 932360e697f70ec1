"""The judge of Kafka's verifiable producer and consumer."""

import json

from tests.ecosystem.oracles.verifiable import Place, judge_verifiable


def report(name: str, *offsets: int, values: dict[int, str] | None = None) -> str:
    lines = [
        {"name": name, "topic": "t", "partition": 0, "offset": offset, "value": (values or {}).get(offset, str(offset))}
        for offset in offsets
    ]
    return "\n".join(map(json.dumps, [{"name": "startup_complete"}, *lines])) + '\n{"name": "cut'


def produced(*offsets: int) -> str:
    return report("producer_send_success", *offsets)


def consumed(*offsets: int, values: dict[int, str] | None = None) -> str:
    return report("record_data", *offsets, values=values)


def test_all_consumed_once_passes() -> None:
    assert judge_verifiable(produced(0, 1, 2), consumed(0, 1, 2), 3) == []


def refused(*values: str) -> str:
    return "\n".join(json.dumps({"name": "producer_send_error", "value": value}) for value in values) + "\n"


def test_refused_record_is_found_unless_nodes_were_killed() -> None:
    reports = refused("7") + produced(0, 1), consumed(0, 1), 3
    assert judge_verifiable(*reports) == ["record 7 was refused"]
    assert judge_verifiable(*reports, nodes_killed=True) == []


def test_refused_record_may_be_written_where_nodes_were_killed() -> None:
    reports = refused("1") + produced(0), consumed(0, 1), 2
    assert judge_verifiable(*reports, nodes_killed=True) == []


def test_record_of_unknown_fate_is_found() -> None:
    problem = "2 records were acknowledged and 0 refused, not 3 in all"
    assert judge_verifiable(produced(0, 1), consumed(0, 1), 3, nodes_killed=True) == [problem]


def test_lost_record_is_found() -> None:
    assert judge_verifiable(produced(0, 1), consumed(0), 2) == [f"record 1 at {Place('t', 0, 1)} was not consumed"]


def test_changed_record_is_found() -> None:
    problem = f"record 1 at {Place('t', 0, 1)} was consumed as 7"
    assert judge_verifiable(produced(0, 1), consumed(0, 1, values={1: "7"}), 2) == [problem]


def test_record_that_was_never_acknowledged_is_found() -> None:
    problem = f"record 1 was consumed at {Place('t', 0, 1)}, and was never acknowledged"
    assert judge_verifiable(produced(0), consumed(0, 1), 1) == [problem]
    assert judge_verifiable(produced(0), consumed(0, 1), 1, nodes_killed=True) == [problem]


def test_repeated_record_is_found_unless_nodes_were_killed() -> None:
    assert judge_verifiable(produced(0), consumed(0, 0), 1) == [f"{Place('t', 0, 0)} was consumed 2 times"]
    assert judge_verifiable(produced(0), consumed(0, 0), 1, nodes_killed=True) == []
