import pytest

from esp.rebalance.produce_latency import quantile_ms, read_buckets

TEXT = """# HELP esp_request_duration_seconds From a request's arrival to its answer, waiting included
# TYPE esp_request_duration_seconds histogram
esp_request_duration_seconds_bucket{le="0.001",listener="PLAINTEXT",request="Produce"} 90.0
esp_request_duration_seconds_bucket{le="0.01",listener="PLAINTEXT",request="Produce"} 99.0
esp_request_duration_seconds_bucket{le="+Inf",listener="PLAINTEXT",request="Produce"} 100.0
esp_request_duration_seconds_bucket{le="0.001",listener="OTHER",request="Produce"} 10.0
esp_request_duration_seconds_bucket{le="0.001",listener="PLAINTEXT",request="FetchConsumer"} 7.0
esp_request_duration_seconds_sum{listener="PLAINTEXT",request="Produce"} 1.0
"""
INF = float("inf")


def test_buckets_of_produce_requests_are_summed_over_listeners() -> None:
    assert read_buckets(TEXT) == {0.001: 100.0, 0.01: 99.0, INF: 100.0}
    assert read_buckets("") == {}


def test_only_what_came_in_between_counts() -> None:
    before = {0.001: 1000.0, 0.01: 1000.0, INF: 1000.0}
    after = {0.001: 1000.0, 0.01: 1100.0, INF: 1100.0}
    assert quantile_ms([before], [after]) == pytest.approx(10.0)


def test_brokers_are_taken_together() -> None:
    none = {0.001: 0.0, 0.01: 0.0, INF: 0.0}
    fast, slow = {0.001: 990.0, 0.01: 990.0, INF: 990.0}, {0.001: 0.0, 0.01: 5.0, INF: 5.0}
    assert quantile_ms([none, none], [fast, slow]) == pytest.approx(1.0)
    slower = {0.001: 0.0, 0.01: 50.0, INF: 50.0}
    assert quantile_ms([none, none], [fast, slower]) == pytest.approx(10.0)


def test_node_that_started_again_counts_from_nothing() -> None:
    assert quantile_ms([{0.001: 5000.0, INF: 5000.0}], [{0.001: 10.0, INF: 10.0}]) == pytest.approx(1.0)


def test_nothing_is_told_of_nothing() -> None:
    assert quantile_ms([], []) is None
    assert quantile_ms([{0.001: 5.0, INF: 5.0}], [{0.001: 5.0, INF: 5.0}]) is None


def test_slower_than_every_bucket_is_the_largest_bound() -> None:
    assert quantile_ms([{}], [{0.001: 0.0, 2.0: 0.0, INF: 10.0}]) == pytest.approx(2000.0)
