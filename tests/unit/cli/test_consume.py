import io
import os
import signal
import time
from types import SimpleNamespace

import pytest

from esp.cli import consume as consume_module
from esp.cli.app import run_tools
from esp.cli.kafka.answers import ConsumedRecord, PartitionId


class FakeConsumer:
    """Gives two records in each answer, for ever."""

    def __init__(self, servers, isolation_level, group=None, begins_at="latest"):
        self.calls = FakeConsumer.calls = [("new", group, begins_at)]
        self.offset = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.calls.append(("close",))

    def start(self, *arguments):
        self.calls.append(("start", *arguments))

    def subscribe(self, topic):
        self.calls.append(("subscribe", topic))

    def poll(self, timeout_ms):
        self.offset += 2
        return [
            ConsumedRecord("t", 0, each, 0, 0, (), None, b"%d" % each) for each in (self.offset - 2, self.offset - 1)
        ]

    def commit(self, next_offsets):
        self.calls.append(("commit", dict(next_offsets)))


@pytest.fixture(autouse=True)
def consumer(monkeypatch):
    monkeypatch.setattr(consume_module, "Consumer", FakeConsumer)
    return FakeConsumer


def test_a_group_s_member_commits_what_it_has_printed_and_no_more(consumer, capsysbinary):
    assert run_tools(["consume", "--topic", "t", "--group", "g", "--from-beginning", "--max-messages", "3"]) == 0
    assert capsysbinary.readouterr().out == b"0\n1\n2\n"
    assert consumer.calls == [
        ("new", "g", "earliest"),
        ("subscribe", "t"),
        ("commit", {PartitionId("t", 0): 3}),
        ("close",),
    ]


@pytest.mark.parametrize("ended_by", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_end_that_comes_while_it_waits_commits_what_was_printed(consumer, capsysbinary, monkeypatch, ended_by):
    def poll(self, timeout_ms, plain=FakeConsumer.poll):
        if self.offset == 4:
            os.kill(os.getpid(), ended_by)
        return plain(self, timeout_ms)

    monkeypatch.setattr(FakeConsumer, "poll", poll)
    before = signal.getsignal(ended_by)
    assert run_tools(["consume", "--topic", "t", "--group", "g"]) == 0
    assert capsysbinary.readouterr().out == b"0\n1\n2\n3\n"
    assert consumer.calls[-2:] == [("commit", {PartitionId("t", 0): 4}), ("close",)]
    assert signal.getsignal(ended_by) is before


def test_end_that_comes_while_records_are_printed_waits_for_them(consumer, monkeypatch):
    class Interrupting(io.BytesIO):
        def flush(self):
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr("sys.stdout", SimpleNamespace(buffer=Interrupting()))
    assert run_tools(["consume", "--topic", "t", "--group", "g"]) == 0
    assert consumer.calls[-2:] == [("commit", {PartitionId("t", 0): 2}), ("close",)]


def test_end_waits_for_nobody_who_does_not_read(consumer, monkeypatch):
    class Stuck(io.BytesIO):
        def flush(self):
            os.kill(os.getpid(), signal.SIGTERM)
            ends_s = time.monotonic() + 60
            while time.monotonic() < ends_s:  # no pause(): it would miss a signal that comes just before it
                time.sleep(0.01)
            pytest.fail("the command waits for its reader")

    monkeypatch.setattr("sys.stdout", SimpleNamespace(buffer=Stuck()))
    assert run_tools(["consume", "--topic", "t", "--group", "g"]) == 0
    assert consumer.calls[-1] == ("close",)
    assert not any(name == "commit" for name, *_ in consumer.calls)


def test_alarm_of_the_process_that_runs_the_command_still_comes(consumer):
    signal.setitimer(signal.ITIMER_REAL, 100)
    try:
        assert run_tools(["consume", "--topic", "t", "--max-messages", "2"]) == 0
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 0
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def test_what_could_not_be_printed_is_not_committed(consumer, monkeypatch):
    class Full:
        def write(self, text):
            raise OSError("No space left on device")

    monkeypatch.setattr(consume_module.sys, "stdout", SimpleNamespace(buffer=Full()))
    with pytest.raises(OSError, match="No space"):
        run_tools(["consume", "--topic", "t", "--group", "g", "--max-messages", "3"])
    assert [call[0] for call in consumer.calls] == ["new", "subscribe", "close"]


def test_without_a_group_nothing_is_committed(consumer):
    assert run_tools(["consume", "--topic", "t", "--max-messages", "2"]) == 0
    assert consumer.calls == [("new", None, "latest"), ("start", "t", None, "latest"), ("close",)]
