from esp.simulation.coverage.functions import ROOMS
from esp.simulation.coverage.report import Seeds, divide, lines
from esp.simulation.tiers import LOG, NODES, PARTITION, QUORUM


def test_each_tier_runs_all_seeds_and_the_slow_one_begins():
    assert list(divide(30, 5)) == [
        share for tier in (NODES, PARTITION, QUORUM, LOG) for share in (Seeds(tier, 5, 25), Seeds(tier, 30, 5))
    ]


def test_a_row_says_how_many_of_a_rooms_functions_were_entered():
    functions = [*(f"{room}.m:f" for room in ROOMS), "esp.raft.x:f"]
    told = [line.split() for line in lines(functions, {"esp.raft.m:f", "esp.storage.m:f"})]
    assert told[1] == ["esp.raft", "1", "2", "50.0%"]
    assert told[3] == ["esp.storage", "1", "1", "100.0%"]
    assert told[-1][:3] == ["all", "2", str(len(ROOMS) + 1)]
