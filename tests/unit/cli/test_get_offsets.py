import json

import pytest

from esp.cli import get_offsets as get_offsets_module
from esp.cli.app import run_tools
from esp.cli.get_offsets import parse_time
from esp.cli.kafka.answers import PartitionId

TOPICS = {"a": 3, "ab": 1, "__consumer_offsets": 1}


class FakeAdmin:
    """Three topics; a partition's offset is told by what was asked for, and of the second one there is none."""

    def __init__(self, servers):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def partitions(self, topics=None):
        return {name: [PartitionId(name, each) for each in range(count)] for name, count in TOPICS.items()}

    silent = ()

    def known_since(self, partitions, timestamp_ms):
        offsets = {each: -1 if each.partition == 1 else 1000 + timestamp_ms for each in partitions}
        return {each: offset for each, offset in offsets.items() if each not in self.silent}, [-1] * bool(self.silent)


@pytest.fixture(autouse=True)
def broker(monkeypatch):
    monkeypatch.setattr(get_offsets_module, "GroupsAdmin", FakeAdmin)


def run(capsys, *arguments, status=0):
    assert run_tools(("get-offsets", *arguments)) == status
    told = capsys.readouterr()
    return told.err if status else told.out.splitlines()


def test_all_partitions_are_told_but_those_without_such_an_offset(capsys):
    assert run(capsys) == ["__consumer_offsets:0:999", "a:0:999", "a:2:999", "ab:0:999"]
    assert run(capsys, "--exclude-internal-topics", "--time", "earliest") == ["a:0:998", "a:2:998", "ab:0:998"]


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (("--topic", "a"), ["a:0", "a:2"]),
        (("--topic", "a.*"), ["a:0", "a:2", "ab:0"]),
        (("--topic", "ab,a", "--partitions", "2, 1"), ["a:2"]),
        (("--topic-partitions", "a:2"), ["a:2"]),
        (("--topic-partitions", "a:0-2,ab"), ["a:0", "ab:0"]),
        (("--topic-partitions", "a:1-"), ["a:2"]),
        (("--topic-partitions", "a:-2"), ["a:0"]),
        (("--topic-partitions", ":2"), ["a:2"]),
        (("--topic-partitions", "a:"), ["a:0", "a:2"]),
    ],
)
def test_partitions_are_chosen_as_kafkas_tool_chooses_them(capsys, arguments, found):
    assert [line.rpartition(":")[0] for line in run(capsys, *arguments)] == found


def test_partitions_whose_leaders_do_not_answer_are_named_and_the_others_are_told(capsys, monkeypatch):
    monkeypatch.setattr(FakeAdmin, "silent", (PartitionId("a", 0),))
    assert run_tools(("get-offsets",)) == 1
    out, err = capsys.readouterr()
    assert out.splitlines() == ["__consumer_offsets:0:999", "a:2:999", "ab:0:999"]
    assert "left out, as their leaders do not answer (there is none): a:0" in " ".join(err.split())


def test_json_is_one_object_a_partition(capsys):
    assert run_tools(("get-offsets", "--topic", "ab", "--json")) == 0
    assert json.loads(capsys.readouterr().out) == [{"topic": "ab", "partition": 0, "offset": 999}]


def test_a_time_is_a_word_its_number_or_milliseconds():
    assert [parse_time(text) for text in ("latest", "EARLIEST", "max-timestamp", "-1", "0", "1767225600000")] == [
        *(-1, -2, -3),
        *(-1, 0, 1767225600000),
    ]


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("--time", "yesterday"), "yesterday"),
        (("--time", "-9"), "-9"),
        (("--topic", "(a"), "regular expression"),
        (("--partitions", "one"), "--partitions"),
        (("--topic-partitions", "a:b"), "TOPIC:PARTITION"),
        (("--topic-partitions", "a", "--topic", "a"), "--topic-partitions"),
        (("--topic", "missing"), "no such partitions"),
    ],
)
def test_what_makes_no_sense_is_refused_with_a_way_out(capsys, arguments, word):
    assert word in run(capsys, *arguments, status=1)
