"""What the figures of a run come to."""

import pytest

from benchmarks.results import (
    ESP,
    IDLE_MEMORY,
    KAFKA,
    LATENCY_P50,
    PRODUCE_ALL,
    PRODUCE_USER,
    Results,
    Spread,
    percentile,
    summarise,
)


def test_the_ratio_is_the_median_over_the_rounds_pairs():
    # a machine twice as slow in the second round: the medians' own ratio would be 1.0
    summary = summarise(PRODUCE_USER, {ESP: [1.0, 2.0, 1.5], KAFKA: [4.0, 8.0, 1.5]})
    assert summary.ratio == 0.25
    assert summary.is_met


def test_a_spread_tells_median_lowest_and_highest():
    assert summarise(PRODUCE_USER, {ESP: [3.0, 1.0, 2.0]}).spreads == {ESP: Spread(2.0, 1.0, 3.0)}


def test_a_ratio_above_its_aim_is_missed():
    assert summarise(PRODUCE_ALL, {ESP: [0.76], KAFKA: [1.0]}).is_met is False


def test_one_broker_alone_has_no_ratio_and_no_verdict():
    summary = summarise(PRODUCE_USER, {KAFKA: [1.0]})
    assert summary.ratio is None
    assert summary.is_met is None


@pytest.mark.parametrize(("value", "is_met"), [(80.0, True), (80.5, False)])
def test_an_aim_for_the_value_itself_needs_no_kafka(value, is_met):
    assert summarise(IDLE_MEMORY, {ESP: [value]}).is_met is is_met


def test_a_figure_without_an_aim_has_no_verdict():
    assert summarise(LATENCY_P50, {ESP: [1.0], KAFKA: [9.0]}).is_met is None


def test_a_cost_of_nothing_on_kafkas_side_does_not_count_as_met():
    assert summarise(PRODUCE_USER, {ESP: [0.0, 0.1], KAFKA: [0.0, 0.0]}).is_met is False


def test_summaries_stand_in_the_order_of_the_report_and_only_for_what_was_measured():
    results = Results()
    results.add(ESP, {IDLE_MEMORY: 70.0})
    results.add(ESP, {PRODUCE_USER: 0.2})
    assert [summary.metric for summary in results.summaries()] == [PRODUCE_USER, IDLE_MEMORY]


@pytest.mark.parametrize(("share", "value"), [(0.0, 1), (0.5, 50), (0.99, 99), (1.0, 100)])
def test_percentiles_of_a_hundred_values_are_the_values(share, value):
    assert percentile(list(range(100, 0, -1)), share) == value


def test_a_percentile_of_one_value_is_that_value():
    assert percentile([7.0], 0.99) == 7.0
