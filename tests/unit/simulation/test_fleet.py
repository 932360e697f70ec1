from esp.simulation.fleet import Summary
from esp.simulation.outcome import Outcome


def outcome(seed, **fields):
    known = {"violation": None, "invariant": None, "simulated_s": 60.0, "steps": 5, "faults": 3, "acked_records": 7}
    known |= {"read_records": 9, "digest": "1-0", "partitions": 4, "excused_partitions": 0, "poisoned_nodes": 0}
    return Outcome(seed=seed, **known | fields)


def test_what_was_excused_is_counted_beside_what_was_looked_at():
    summary = Summary()
    summary.add(outcome(1))
    summary.add(outcome(2, excused_partitions=3, poisoned_nodes=1))
    lines = [line.split() for line in summary.lines()]
    assert ["partitions", "8"] in lines
    assert ["excused", "from", "durability", "3"] in lines
    assert ["nodes", "whose", "devices", "lied", "1"] in lines


def test_a_violation_is_listed_with_how_to_see_it_again():
    summary = Summary()
    summary.add(outcome(17, violation="INV-ORDER at node 1: no", invariant="INV-ORDER"))
    lines = list(summary.lines())
    assert "  seed 17: INV-ORDER at node 1: no" in lines
    assert any("make sim SEED=17" in line for line in lines)
