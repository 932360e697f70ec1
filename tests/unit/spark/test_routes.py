from esp.spark.routes import find_routes, hash_of


def test_hashes_are_those_that_spark_showed() -> None:
    """``SELECT hash(0), hash(1), hash(42)``; ``tests/integration/spark/test_esp_sinks.py`` asks Spark itself."""
    assert [hash_of(number) for number in (0, 1, 42)] == [933211791, -559580957, 29417773]


def test_each_task_has_a_route_of_its_own() -> None:
    for tasks in (1, 2, 7, 100):
        routes = find_routes(tasks)
        assert [hash_of(route) % tasks for route in routes] == list(range(tasks))
