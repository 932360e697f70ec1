"""What a load says when one of its clients stands still."""

import pytest

from tests.integration.guarded_loads import Load


def test_a_reader_that_stands_still_is_named() -> None:
    load = Load("PLAIN", ("librdkafka", "kafka-python"), wait_s=0)
    load.written = 3
    load.read[0] = {0: b"0", 1: b"1"}
    load.states["kafka-python"] = lambda: "REBALANCING"
    said = "PLAIN: 3 written; read: librdkafka 2, kafka-python 0; kafka-python: REBALANCING"
    with pytest.raises(AssertionError, match=f"{said}; each should have read \\[102, 100\\]"):
        load.until_more(100)
    load.has_written.set()
    with pytest.raises(AssertionError, match=said):
        load.end()


def test_a_reader_of_other_records_is_named() -> None:
    load = Load("SSL", ("librdkafka", "kafka-python"), wait_s=0)
    load.written = 1
    load.read = [{0: b"0"}, {0: b"1"}]
    load.has_written.set()
    with pytest.raises(AssertionError, match="SSL: kafka-python"):
        load.end()
