"""``esp topics``, ``esp produce`` and ``esp consume`` as users run them, against a running node."""

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from esp.testing.node_process import NodeProcess
from esp.testing.segment_files import read_batch_headers
from tests.integration.samples import CODECS

Done = subprocess.CompletedProcess[str]


def run(node: NodeProcess, command: str, *arguments: str, stdin: str = "", timeout_s: float = 60) -> Done:
    """Run a command to its end."""
    return subprocess.run(
        [sys.executable, "-m", "esp", command, "--bootstrap-server", node.bootstrap, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=timeout_s,
    )


def ok(node: NodeProcess, command: str, *arguments: str, stdin: str = "") -> str:
    """Run a command that must do what it is told, without a word on stderr; return what it printed."""
    done = run(node, command, *arguments, stdin=stdin)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


def refused(node: NodeProcess, command: str, *arguments: str, stdin: str = "") -> str:
    """Run a command that cannot do what it is told; return what it said: a line with the problem, a line with the remedy."""
    done = run(node, command, *arguments, stdin=stdin)
    assert done.returncode == 1
    assert done.stderr.startswith("esp: ")
    assert done.stderr.count("\n") == 2, done.stderr
    return done.stderr


def test_a_topic_lives_from_creation_to_deletion(node: NodeProcess, topic: str):
    settings = ("--config", "retention.ms=-1", "--config", "segment.bytes=2000000")
    created = ok(node, "topics", "--create", "--topic", topic, "--partitions", "3", *settings)
    assert created == f"Created topic {topic}.\n"
    assert topic in ok(node, "topics", "--list").splitlines()
    assert topic in json.loads(ok(node, "topics", "--list", "--json"))
    head, *partitions = ok(node, "topics", "--describe", "--topic", topic).splitlines()
    assert "PartitionCount: 3\tReplicationFactor: 1\tConfigs: retention.ms=-1,segment.bytes=2000000" in head
    assert [line.split("\t")[2] for line in partitions] == [f"Partition: {number}" for number in range(3)]
    assert all("Leader: 1\tReplicas: 1\tIsr: 1" in line for line in partitions)
    [described] = json.loads(ok(node, "topics", "--describe", "--topic", topic, "--json"))
    assert described["configs"] == {"retention.ms": "-1", "segment.bytes": "2000000"}
    assert len(described["topic_id"]) == 22
    assert ok(node, "topics", "--delete", "--topic", topic) == ""
    assert "there is no topic" in refused(node, "topics", "--describe", "--topic", topic)


def test_what_a_topic_cannot_be_is_told(node: NodeProcess, topic: str):
    ok(node, "topics", "--create", "--topic", topic)
    assert "already exists" in refused(node, "topics", "--create", "--topic", topic)
    assert ok(node, "topics", "--create", "--topic", topic, "--if-not-exists") == ""
    assert "Unknown topic config name: nope" in refused(
        node, "topics", "--create", "--topic", f"{topic}-2", "--config", "nope=1"
    )
    assert "not created" in refused(node, "topics", "--create", "--topic", f"{topic}-2", "--replication-factor", "3")
    assert "not created" in refused(node, "topics", "--create", "--topic", "a topic")
    assert ok(node, "topics", "--delete", "--topic", f"{topic}-2", "--if-exists") == ""


@pytest.mark.parametrize("codec", CODECS)
def test_lines_go_in_and_come_out_in_every_codec(node: NodeProcess, topic: str, codec: str):
    ok(node, "topics", "--create", "--topic", topic)
    # Long ones: what does not shrink is sent as it is, and a batch may have a single line in it.
    lines = "".join(f"line {number} of {'very ' * 50}many\n" for number in range(1000))
    assert ok(node, "produce", "--topic", topic, "--compression-codec", codec, stdin=lines) == ""
    assert ok(node, "consume", "--topic", topic, "--from-beginning", "--max-messages", "1000") == lines
    headers = read_batch_headers(node.log_dirs, topic)
    assert {header.codec for header in headers} == {CODECS[codec]}


def test_keys_and_headers_go_in_and_come_out(node: NodeProcess, topic: str):
    ok(node, "topics", "--create", "--topic", topic)
    ok(
        node,
        "produce",
        "--topic",
        topic,
        "--property",
        "parse.key=true",
        "--property",
        "parse.headers=true",
        "--property",
        "null.marker=NULL",
        stdin="a:1,b:2\tkey\tvalue\n\tgone\tNULL\n",
    )
    printed = ok(
        node,
        "consume",
        "--topic",
        topic,
        "--from-beginning",
        "--max-messages",
        "2",
        "--property",
        "print.key=true",
        "--property",
        "print.headers=true",
        "--property",
        "print.offset=true",
        "--property",
        "print.partition=true",
    )
    assert printed == "Partition:0\tOffset:0\ta:1,b:2\tkey\tvalue\nPartition:0\tOffset:1\tNO_HEADERS\tgone\tnull\n"
    first, second = ok(
        node, "consume", "--topic", topic, "--from-beginning", "--max-messages", "2", "--json"
    ).splitlines()
    told = json.loads(first)
    assert (told["offset"], told["headers"], told["key"], told["value"]) == (
        0,
        [["a", "1"], ["b", "2"]],
        "key",
        "value",
    )
    assert told["timestamp_type"] == "CreateTime"
    assert json.loads(second)["value"] is None


def test_reading_begins_where_it_is_told(node: NodeProcess, topic: str):
    ok(node, "topics", "--create", "--topic", topic, "--partitions", "2")
    ok(node, "produce", "--topic", topic, "--property", "parse.key=true", stdin="".join(f"k\t{n}\n" for n in range(10)))
    everything = ok(node, "consume", "--topic", topic, "--from-beginning", "--timeout-ms", "1000")
    assert everything.split() == [str(number) for number in range(10)]
    [partition] = {
        json.loads(line)["partition"]
        for line in ok(
            node, "consume", "--topic", topic, "--from-beginning", "--max-messages", "10", "--json"
        ).splitlines()
    }
    at = ("--topic", topic, "--partition", str(partition))
    assert ok(node, "consume", *at, "--offset", "7", "--max-messages", "2").split() == ["7", "8"]
    assert ok(node, "consume", *at, "--offset", "-3", "--max-messages", "2").split() == ["7", "8"]
    assert ok(node, "consume", *at, "--offset", "earliest", "--max-messages", "1").split() == ["0"]
    assert ok(node, "consume", *at, "--offset", "latest", "--timeout-ms", "300") == ""
    assert "offsets from 0 to 9" in refused(node, "consume", *at, "--offset", "11")
    assert "has no partition 9" in refused(node, "consume", "--topic", topic, "--partition", "9")
    assert "there is no topic" in refused(node, "consume", "--topic", f"{topic}-missing")


def test_a_file_goes_in_with_every_acknowledgement(node: NodeProcess, topic: str, tmp_path: Path):
    ok(node, "topics", "--create", "--topic", topic)
    lines = tmp_path / "lines.txt"
    for acks in ("all", "1", "0"):
        lines.write_text(f"acks {acks}\n")
        ok(node, "produce", "--topic", topic, "--file", str(lines), "--request-required-acks", acks)
    printed = ok(node, "consume", "--topic", topic, "--from-beginning", "--max-messages", "3")
    assert printed == "acks all\nacks 1\nacks 0\n"


def test_a_bad_line_is_named_and_the_lines_before_it_are_kept(node: NodeProcess, topic: str):
    ok(node, "topics", "--create", "--topic", topic)
    told = refused(node, "produce", "--topic", topic, "--property", "parse.key=true", stdin="a\t1\nb\t2\nthree\nd\t4\n")
    assert "line 3" in told
    assert ok(node, "consume", "--topic", topic, "--from-beginning", "--timeout-ms", "1000") == "1\n2\n"


def test_a_record_that_is_too_large_is_told_and_the_others_are_kept(node: NodeProcess, topic: str):
    ok(node, "topics", "--create", "--topic", topic)
    told = refused(node, "produce", "--topic", topic, stdin=f"a\n{'b' * 2_000_000}\nc\n")
    assert "1 of 3 records were not written" in told
    assert ok(node, "consume", "--topic", topic, "--from-beginning", "--timeout-ms", "1000") == "a\nc\n"


def test_a_record_that_the_broker_refuses_is_told(node: NodeProcess, topic: str):
    ok(node, "topics", "--create", "--topic", topic, "--config", "max.message.bytes=1000")
    told = refused(node, "produce", "--topic", topic, stdin="b" * 2000)
    assert "1 of 1 records were not written" in told
    assert "MessageSizeTooLarge" in told


def test_a_record_that_is_larger_than_the_topic_takes_is_the_only_one_refused(node: NodeProcess, topic: str):
    ok(node, "topics", "--create", "--topic", topic, "--config", "max.message.bytes=1000")
    numbers = "".join(f"{number}\n" for number in range(1000))  # in batches that are larger than the topic takes
    told = refused(node, "produce", "--topic", topic, stdin=f"{'b' * 2000}\n{numbers}")
    assert "1 of 1001 records were not written" in told
    assert ok(node, "consume", "--topic", topic, "--from-beginning", "--timeout-ms", "1000") == numbers


def test_line_ends_of_every_kind_are_taken_off_and_empty_lines_are_records(node: NodeProcess, topic: str):
    ok(node, "topics", "--create", "--topic", topic)
    ok(node, "produce", "--topic", topic, stdin="a\r\n\nb\r\r\nc")
    assert ok(node, "consume", "--topic", topic, "--from-beginning", "--max-messages", "4") == "a\n\nb\nc\n"


def test_a_topic_that_cannot_be_is_told(node: NodeProcess):
    assert "a topic" in refused(node, "produce", "--topic", "a topic", stdin="a\n")


def test_a_topic_that_is_not_there_is_told_after_a_while(node: NodeProcess, topic: str):
    wanted = ("--producer-property", "allow.auto.create.topics=false", "--producer-property", "max.block.ms=500")
    assert f"there is no topic {topic}" in refused(node, "produce", "--topic", topic, *wanted, stdin="a\n")


def test_a_broker_that_is_too_old_is_told(node: NodeProcess, topic: str):
    ok(node, "topics", "--create", "--topic", topic)
    old = ("--producer-property", "api.version=0.10.2")
    assert "does not support a request that this command needs" in refused(
        node, "produce", "--topic", topic, *old, stdin="a\n"
    )
    older = (*old, "--producer-property", "enable.idempotence=false")
    assert "does not support a request that this command needs" in refused(
        node, "produce", "--topic", topic, *older, stdin="a\n"
    )


@contextmanager
def typing(node: NodeProcess, topic: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """``esp produce`` with a terminal for its input, and that terminal."""
    ours, its = pty.openpty()
    command = [sys.executable, "-m", "esp", "produce", "--topic", topic, "--bootstrap-server", node.bootstrap]
    with subprocess.Popen(command, stdin=its, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        os.close(its)
        try:
            yield process, ours
        finally:
            process.kill()
            os.close(ours)


def test_a_line_that_is_typed_is_sent_while_the_terminal_stays_open(node: NodeProcess, topic: str):
    ok(node, "topics", "--create", "--topic", topic)
    last = ("--partition", "0", "--offset", "-1", "--max-messages", "1")
    with typing(node, topic) as (process, terminal):
        for line in ("first", "second"):
            os.write(terminal, f"{line}\n".encode())
            found = ok(node, "consume", "--topic", topic, *last)
            while found != f"{line}\n":  # the wait for a record that never comes is cut by the time-out of the test
                found = ok(node, "consume", "--topic", topic, *last, "--max-messages", "1")
        os.write(terminal, b"\x04")  # Ctrl-D
        assert process.communicate(timeout=20) == ("", "")
    assert process.returncode == 0


def test_ctrl_c_ends_typing_and_keeps_what_was_typed(node: NodeProcess, topic: str):
    ok(node, "topics", "--create", "--topic", topic)
    with typing(node, topic) as (process, terminal):
        os.write(terminal, b"kept\n")
        assert ok(node, "consume", "--topic", topic, "--from-beginning", "--max-messages", "1") == "kept\n"
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=20) == ("", "esp: interrupted\n")
    assert process.returncode == 130
