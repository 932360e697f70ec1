"""The report of groups: its rows, and the comparison of topics with holds and floors to plain ones."""

from benchmarks.groups import __main__ as command
from benchmarks.groups.holds import TOPICS, compare
from benchmarks.groups.metrics import COST_RATIOS, GROUP_METRICS, PLAIN_COSTS
from benchmarks.results import ESP, Results


def test_each_topic_is_compared_with_the_plain_one_of_its_round():
    costs = {topic: {"produce": 30.0, "fetch": 50.0} for topic in TOPICS} | {"held": {"produce": 33.0, "fetch": 45.0}}
    found = compare(costs)
    assert found[PLAIN_COSTS["produce"]] == 30.0
    assert (found[COST_RATIOS["produce"]["held"]], found[COST_RATIOS["fetch"]["held"]]) == (1.1, 0.9)
    assert found[COST_RATIOS["fetch"]["created again"]] == 1.0


def test_the_aim_is_on_the_median_of_the_ratios():
    metric = COST_RATIOS["produce"]["held"]
    results = Results(GROUP_METRICS)
    for ratio in (0.9, 1.01, 1.3):
        results.add(ESP, {metric: ratio})
    assert [summary.is_met for summary in results.summaries()] == [True]
    results.add(ESP, {metric: 1.4})
    assert [summary.is_met for summary in results.summaries()] == [False]


def test_every_row_has_an_extent_in_a_planned_run():
    assert command.PLAN.keys() == command.ROWS.keys()
