import logging

from esp.simulation.trace import Trace, logged_to


def digest(*events, keep=None):
    trace = Trace(lambda: 1.5, keep)
    for kind, who, size in events:
        trace.count(kind, who, size)
    return trace.digest


def test_the_hash_covers_kind_place_size_and_order():
    one, other = ("arrived", "10.0.0.1", 5), ("sync", "node 1", 2)
    assert digest(one, other) == digest(one, other)
    different = [digest(other, one), digest(one), digest(one, ("arrived", "10.0.0.2", 5)), digest(one, one)]
    assert digest(one, other) not in different
    assert len(set(different)) == 4


def test_whether_anybody_reads_changes_nothing_of_the_hash():
    lines = []
    silent, read = Trace(lambda: 2.0), Trace(lambda: 2.0, lines.append)
    for trace in (silent, read):
        trace.say("node 1", "serves")
    assert silent.digest == read.digest
    assert lines == ["  2.000000 node 1     serves"]


def test_what_nodes_log_goes_to_the_reader_alone():
    lines = []
    with logged_to(Trace(lambda: 0.0, lines.append), lambda: "node 2"):
        logging.getLogger("esp.broker").info("up %d", 1)
    logging.getLogger("esp.broker").info("not this")
    assert lines == ["  0.000000 node 2     logs: up 1"]
