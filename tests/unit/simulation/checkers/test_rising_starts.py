from esp.simulation.checkers.rising_starts import RisingStarts
from esp.storage.log import Log
from tests.unit.simulation.checkers.scenes import nodes_with


def test_each_rise_is_told_before_it_happens_and_nothing_else():
    (node,) = nodes_with(3, count=1)
    node.log.high_watermark = 3
    told = []
    starts = RisingStarts(lambda log, offset: told.append((log, log.log_start_offset, offset)))
    with starts.watched():
        node.log.raise_log_start(2)
        node.log.raise_log_start(1)
        node.log.raise_log_start(3)
    assert told == [(node.log, 0, 2), (node.log, 2, 3)]
    assert node.log.log_start_offset == 3


def test_nothing_is_watched_after_the_block():
    before = Log.raise_log_start
    with RisingStarts(lambda _log, _offset: None).watched():
        assert Log.raise_log_start is not before
    assert Log.raise_log_start is before
