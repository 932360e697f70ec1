"""What few runs do is done in about as many of the chosen ones as what many do."""

from collections import Counter

from esp.simulation.coverage.choosing import WORKLOADS, choose
from esp.simulation.nodes_tier.profile import Profile


def test_each_workload_comes_in_several_of_thirty_runs():
    seeds = choose(30, 7)
    assert len(set(seeds)) == 30
    assert seeds == sorted(seeds)
    assert min(seeds) >= 7
    profiles = [Profile.draw(seed) for seed in seeds]
    found = Counter(name for profile in profiles for name, is_there in WORKLOADS.items() if is_there(profile))
    assert {name: found[name] for name in WORKLOADS if found[name] < 4} == {}


def test_the_same_seeds_are_chosen_again():
    assert choose(5, 1) == choose(5, 1)
    assert not set(choose(5, 1)) & set(choose(5, 1001))
