from esp.simulation.coverage.choosing import choose
from esp.simulation.coverage.functions import ROOMS
from esp.simulation.coverage.report import Seeds, divide, lines
from esp.simulation.tiers import LOG, NODES, PARTITION, QUORUM


def test_each_tier_runs_its_seeds_and_the_slow_one_begins_with_those_that_were_chosen():
    chosen = tuple(choose(12, 5))
    shares = list(divide(12, 5))
    assert shares[:2] == [Seeds(NODES, chosen[:10]), Seeds(NODES, chosen[10:])]
    for tier, count in ((PARTITION, 36), (QUORUM, 60), (LOG, 12)):
        assert [seed for share in shares if share.tier == tier for seed in share.seeds] == list(range(5, 5 + count))


def test_a_row_says_how_many_of_a_rooms_functions_were_entered():
    functions = [*(f"{room}.m:f" for room in ROOMS), "esp.raft.x:f"]
    told = [line.split() for line in lines(functions, {"esp.raft.m:f", "esp.storage.m:f"})]
    assert told[1] == ["esp.raft", "1", "2", "50.0%"]
    assert next(row for row in told if row[:1] == ["esp.storage"]) == ["esp.storage", "1", "1", "100.0%"]
    assert told[-1][:3] == ["all", "2", str(len(ROOMS) + 1)]
