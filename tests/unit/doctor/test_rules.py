"""The table of rules, and what all of them together say of a cluster."""

import re
from pathlib import Path

import pytest

from esp.doctor.rule import Severity
from esp.doctor.rules import RULES, examine
from esp.doctor.snapshot import BrokerCondition, FailedDirectory, ThrottleSetting
from esp.model.ids import NodeId
from esp.rebalance.intent_words import parse_intent
from tests.unit.doctor.snapshots import healthy, moving, name_of, quorum, snapshot
from tests.unit.placement.clusters import partition

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "DOCTOR.md"


def sick():
    """A cluster with much that is wrong."""
    partitions = [partition(f"t-{number}", (1, 2), leader=2, isr=(2,), min_isr=2) for number in range(9)]
    partitions += [
        partition("u-0", (4,), leader=None, isr=()),
        partition("__consumer_offsets-0", (1,)),
        partition("v-0", (1, 2), leader=2, min_isr=2),
        partition("w-0", (1, 2, 4), isr=(1, 2), min_isr=2),
    ]
    return snapshot(
        5,
        partitions,
        conditions={NodeId(4): BrokerCondition.FENCED},
        racks=("a", "a", "b", "c", None),
        capacity_bytes={1: 13 << 20, 2: 1 << 40},
        offline={"t-0": (1,)},
        draining=(5,),
        moving={name_of("t-1"): moving((1,), is_stalled=True)},
        unclean_topics=frozenset({"t"}),
        throttles=(ThrottleSetting("", False, ("leader.replication.throttled.rate",)),),
        failed_directories=(FailedDirectory(NodeId(1), "/data", "KAFKA_STORAGE_ERROR"),),
        quorum=quorum(0, 1 << 30),
    )


def test_healthy_cluster_is_found_healthy():
    assert examine(healthy(), RULES.values()) == ()


def test_findings_come_with_the_worst_first():
    severities = [finding.rule.severity for finding in examine(sick(), RULES.values())]
    assert set(severities) == set(Severity)
    assert severities == sorted(severities, key=list(Severity).index)


def test_only_the_rules_that_are_asked_for_are_applied():
    [finding] = examine(sick(), [RULES["quorum-even"], RULES["broker-gone"]])
    assert finding.rule.name == "quorum-even"


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_rule_is_told_in_one_line_each(rule):
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", rule.name)
    for text in (rule.title, rule.why, rule.remedy):
        assert text
        assert "\n" not in text
    assert rule.why.endswith(".")
    assert not rule.title.endswith(".")


def test_remedies_are_commands_that_there_are():
    remedies = [hit.remedy for finding in examine(sick(), RULES.values()) for hit in finding.hits]
    plans = [found.split() for text in remedies for found in re.findall(r"`esp rebalance plan ([^`]*)`", text)]
    assert {words[0] for words in plans} >= {"rf", "spread", "drain"}
    for words in plans:
        parse_intent(words)


def test_document_has_the_table_of_rules():
    rows = re.findall(r"^\| `([a-z-]+)` \| (\w+) \| (.*?) \| (.*?) \| (.*?) \|$", DOCUMENT.read_text(), re.MULTILINE)
    assert rows == [(rule.name, rule.severity.value, rule.title, rule.why, rule.remedy) for rule in RULES.values()]
