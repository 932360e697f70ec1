"""kcat of Debian 12 (librdkafka 2.0.2) against a running node: the oldest client of all that tests have.

It is a package of the system, not of Python: where it is missing these tests are skipped, also in CI.
"""

import json
import shutil
import subprocess
from collections.abc import Mapping

import pytest

from esp.testing.node_process import NodeProcess
from esp.testing.segment_files import read_batch_headers
from tests.integration.conftest import MakeTopic
from tests.integration.group_members import QUICK_GROUPS
from tests.integration.samples import CODECS

pytestmark = pytest.mark.skipif(shutil.which("kcat") is None, reason="no kcat on the PATH (Debian: kcat)")


@pytest.fixture(scope="module")
def node_settings() -> Mapping[str, str]:
    """Groups begin without delay."""
    return QUICK_GROUPS


def kcat(node: NodeProcess, *arguments: str, stdin: str = "") -> str:
    done = subprocess.run(
        ["kcat", "-b", node.bootstrap, *arguments], input=stdin, capture_output=True, text=True, timeout=30
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("codec", CODECS)
def test_records_come_back_as_sent_with_each_codec(node: NodeProcess, make_topic: MakeTopic, codec: str) -> None:
    topic = make_topic()
    lines = [f"k{i % 7}:value {i} of many" for i in range(500)]
    kcat(node, "-P", "-t", topic, "-K", ":", "-z", codec, "-H", "h=1", "-X", "linger.ms=100", stdin="\n".join(lines))
    got = kcat(node, "-C", "-t", topic, "-p", "0", "-o", "beginning", "-e", "-q", "-f", "%o %k:%s %h\n")
    assert got.splitlines() == [f"{i} {line} h=1" for i, line in enumerate(lines)]
    # old librdkafka sends plain batches, without a word, when Produce 0 is not advertised
    assert {header.codec for header in read_batch_headers(node.log_dirs, topic)} == {CODECS[codec]}


def test_idempotent_producer_writes(node: NodeProcess, make_topic: MakeTopic) -> None:
    topic = make_topic()
    kcat(node, "-P", "-t", topic, "-X", "enable.idempotence=true", stdin="a\nb\nc")
    assert kcat(node, "-C", "-t", topic, "-p", "0", "-o", "1", "-e", "-q").split() == ["b", "c"]
    assert read_batch_headers(node.log_dirs, topic)[0].producer_id >= 0


def test_metadata_is_listed(node: NodeProcess, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=3)
    listed = kcat(node, "-L")
    assert f"broker 1 at {node.bootstrap}" in listed
    assert f'topic "{topic}" with 3 partitions' in listed
    told = json.loads(kcat(node, "-L", "-J", "-t", topic))
    assert (told["controllerid"], told["brokers"]) == (1, [{"id": 1, "name": node.bootstrap}])
    (described,) = told["topics"]
    assert [(each["partition"], each["leader"]) for each in described["partitions"]] == [(0, 1), (1, 1), (2, 1)]


def test_offsets_are_queried(node: NodeProcess, make_topic: MakeTopic) -> None:
    topic = make_topic()
    kcat(node, "-P", "-t", topic, stdin="a\nb\nc")
    assert kcat(node, "-Q", "-t", f"{topic}:0:-1").strip() == f"{topic} [0] offset 3"
    assert kcat(node, "-Q", "-t", f"{topic}:0:-2").strip() == f"{topic} [0] offset 0"
    assert kcat(node, "-Q", "-t", f"{topic}:0:1000").strip() == f"{topic} [0] offset 0"


def test_keys_and_nulls_are_told_as_json(node: NodeProcess, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=2)
    kcat(node, "-P", "-t", topic, "-p", "1", "-K", ":", "-Z", stdin="a:1\n:2\nc:")
    printed = kcat(node, "-C", "-t", topic, "-p", "1", "-o", "-2", "-e", "-q", "-J")
    told = [json.loads(line) for line in printed.splitlines()]
    assert [(each["offset"], each["key"], each["payload"]) for each in told] == [(1, None, "2"), (2, "c", None)]
    assert {(each["topic"], each["partition"], each["tstype"]) for each in told} == {(topic, 1, "create")}


def test_members_of_a_group_go_on_where_the_last_one_left(node: NodeProcess, make_topic: MakeTopic) -> None:
    topic = make_topic()
    kcat(node, "-P", "-t", topic, stdin="\n".join("abcdef"))
    reset = ("-X", "auto.offset.reset=earliest")
    assert kcat(node, "-G", topic, *reset, "-q", "-c", "4", topic).split() == list("abcd")
    assert kcat(node, "-G", topic, *reset, "-q", "-c", "2", topic).split() == list("ef")
    # in the format that other clients know: one that subscribes to a pattern, with another assignor, goes on too
    kcat(node, "-P", "-t", topic, stdin="g")
    last = ("-X", "partition.assignment.strategy=cooperative-sticky", "-q", "-e")
    assert kcat(node, "-G", topic, *reset, *last, f"^{topic}$").split() == ["g"]
