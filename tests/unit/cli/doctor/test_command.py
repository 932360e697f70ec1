"""``esp doctor`` without a cluster, and what it says of one that is given."""

import json
import subprocess

import pytest

from esp.cli.app import run_tools
from esp.cli.doctor import command as doctor_module
from esp.cli.doctor import what_if as what_if_module
from esp.cli.doctor.text import with_servers
from esp.doctor.protection import HashedPassword, Protection
from esp.doctor.rules import RULES
from esp.doctor.snapshot import BrokerCondition, KeptRecords, QueueCondition, RebalancingGroup, UnreadRecords
from esp.model.client_quotas import client_alone
from esp.model.ids import NodeId
from tests.unit.doctor.snapshots import healthy, name_of, quorum, snapshot
from tests.unit.placement.clusters import partition

DEAD = ("--bootstrap-server", "127.0.0.1:1")


class NoAdmin:
    """Stands for a connection that is not used."""

    def __init__(self, servers, within_s=None):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


@pytest.fixture
def given(monkeypatch):
    """Let the commands look at a snapshot."""

    def look_at(found):
        for module in (doctor_module, what_if_module):
            monkeypatch.setattr(module, "DoctorAdmin", NoAdmin)
            monkeypatch.setattr(module, "look_for_doctor", lambda admin, wait=None: found)

    return look_at


def run(capsys, *arguments, status=0):
    done = run_tools(["doctor", *arguments])
    told = capsys.readouterr()
    assert done == status, told
    return told.err if status == 2 else told.out


def warned():
    """Twelve topics with a single copy, and nothing worse."""
    partitions = [partition(f"t{number:02}-0", (number % 3 + 1,)) for number in range(12)]
    return snapshot(3, partitions, quorum=quorum(0, 0, 0))


def stopped():
    return snapshot(
        3,
        [partition("t-0", (3,), leader=None, isr=(3,)), partition("u-0", (1, 2), min_isr=2)],
        conditions={NodeId(3): BrokerCondition.FENCED},
        racks=("a", "b", "b"),
        quorum=quorum(0, 0, 0),
    )


def test_nothing_found_is_said_and_is_status_0(capsys, given):
    given(healthy())
    assert run(capsys, "--fail-on", "note") == "Nothing found; examined 3 brokers, 2 topics, 6 partitions\n"
    assert json.loads(run(capsys, "--json"))["findings"] == []


@pytest.mark.parametrize(("fail_on", "status"), [("error", 0), ("warning", 1), ("note", 1), ("never", 0)])
def test_status_goes_by_the_worst_finding(capsys, given, fail_on, status):
    given(warned())
    assert "WARNING  single-copy" in run(capsys, "--fail-on", fail_on, status=status)


def test_error_is_status_1_unless_it_is_not_asked_for(capsys, given):
    given(stopped())
    assert "ERROR    offline-partition: partitions without a leader (1)" in run(capsys, status=1)
    run(capsys, "--fail-on", "never")
    run(capsys, "--skip", "offline-partition,broker-fenced")
    assert "offline-partition" not in run(capsys, "--rule", "single-copy,min-isr-equals-copies")


def test_many_places_are_folded_and_json_has_them_all(capsys, given):
    given(warned())
    told = run(capsys, "--show", "2")
    assert told.splitlines()[:7] == [
        "WARNING  single-copy: topics with a single copy (12)",
        "         topic t00  1 of 1 partitions have one copy",
        "         topic t01  1 of 1 partitions have one copy",
        "         ... and 10 more",
        f"         why  {RULES['single-copy'].why}",
        "         fix  esp rebalance plan rf t00=3 --bootstrap-server 127.0.0.1:9092",
        "         fix  esp rebalance plan rf t01=3 --bootstrap-server 127.0.0.1:9092",
    ]
    assert told.splitlines()[-1] == "1 warning; examined 3 brokers, 12 topics, 12 partitions"
    [finding] = json.loads(run(capsys, "--json"))["findings"]
    assert (finding["rule"], finding["severity"]) == ("single-copy", "warning")
    assert finding["places"][11] == {
        "kind": "topic",
        "name": "t11",
        "detail": "1 of 1 partitions have one copy",
        "remedy": "`esp rebalance plan rf t11=3 --bootstrap-server 127.0.0.1:9092`",
    }


def test_rules_are_listed_and_explained_without_a_cluster(capsys):
    listed = run(capsys, "--rules", *DEAD)
    assert [line.split()[1] for line in listed.splitlines()[1:]] == list(RULES)
    assert len(json.loads(run(capsys, "--rules", "--json", "--skip", "single-copy"))) == len(RULES) - 1
    explained = run(capsys, "--explain", "quorum-even", *DEAD)
    assert RULES["quorum-even"].why in explained
    assert RULES["quorum-even"].remedy in explained


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (DEAD, "no broker answers at 127.0.0.1:1"),
        (("--explain", "no-such"), "there is no rule no-such"),
        (("--rule", "no-such", *DEAD), "there is no rule no-such"),
        (("what-if", "--broker", "1", "down", *DEAD), "no broker answers"),
        (("what-if", "--broker", "x", "down", *DEAD), "not a node id"),
        (("what-if", "down", *DEAD), "no broker or rack is named"),
        (("what-if", "--broker", "1", "up", *DEAD), "down"),
        (("what-if", "--broker", "1", *DEAD), "Missing argument"),
        ((*DEAD, "what-if", "--broker", "1", "down"), "after what-if"),
    ],
)
def test_what_cannot_be_done_is_said_with_status_2(capsys, arguments, told):
    assert told in run(capsys, *arguments, status=2)


def test_unknown_brokers_and_racks_are_named(capsys, given):
    given(stopped())
    assert "there is no node 9" in run(capsys, "what-if", "--broker", "2,9", "down", status=2)
    assert "The racks are a, b." in run(capsys, "what-if", "--rack", "c", "down", status=2)


def test_what_stops_is_said_and_is_status_1(capsys, given):
    given(stopped())
    told = run(capsys, "what-if", "--broker", "2", "down", status=1)
    assert told.splitlines()[:5] == [
        "Node 2 is supposed to be down.",
        "",
        "ERROR    1 partition stops for acks=all",
        "         u-0  leader 1 -> 1, in sync 1, 2 needed",
        "         why  fewer replicas are in sync than min.insync.replicas; reading goes on",
    ]
    assert told.splitlines()[-1] == "Something stops."
    run(capsys, "what-if", "--broker", "2", "down", "--fail-on", "never")


def test_brokers_are_named_in_every_way(capsys, given):
    given(stopped())
    for words in (
        ("--broker", "2,3", "down"),
        ("--broker", "2", "down", "--broker", "3", "down"),
        ("--rack", "b", "down"),
    ):
        found = json.loads(run(capsys, "what-if", *words, "--json", "--fail-on", "never"))
        assert (found["down"], found["down_already"]) == ([2, 3], [3])
        assert found["quorum"]["is_lost"]


def test_nothing_that_changes_is_said(capsys, given):
    given(stopped())
    told = run(capsys, "what-if", "--broker", "3", "down", "--fail-on", "warning")
    assert "Node 3 is down already." in told
    assert "Something stops" not in told


def test_what_is_survived_is_status_0_or_1_as_wanted(capsys, given):
    given(healthy())
    told = run(capsys, "what-if", "--broker", "1", "down", "--fail-on", "warning")
    assert "NOTE     the controllers keep their majority" in told
    assert told.splitlines()[-1] == "Nothing stops, and nothing is at risk."
    run(capsys, "what-if", "--broker", "1", "down", "--fail-on", "note", status=1)


def test_command_in_a_remedy_stands_alone_and_names_the_servers_that_were_asked(capsys, given):
    given(stopped())
    told = run(capsys, "--rule", "offline-partition,broker-fenced", "--bootstrap-server", "h1:1,h2:2", status=1)
    assert "         fix  start broker 3" in told.splitlines()
    assert with_servers("add: `esp quorum add-controller --config FILE`", "h:1") == (
        "add: `esp quorum add-controller --config FILE --bootstrap-server h:1`"
    )
    [line] = [line for line in run(capsys, "--rules", status=0).splitlines() if "min-isr-one" in line]
    assert "mend" not in line


def test_remedies_name_commands_of_esp_alone():
    remedies = [rule.remedy for rule in RULES.values()]
    assert not [each for each in remedies if ".sh" in each or "kafka-" in each]


HOSTILE = "x; touch pwned #`id` $(id) 'é'\x1b[2J\n         fix  esp trash"
"""A name that a shell would act upon, and a terminal, and a reader."""


def hostile():
    """A cluster whose groups, users and clients have that name."""
    queue = QueueCondition(HOSTILE, name_of("t-0"), 17, 2_000, 2_000, 1, 60_000, "m", 25_000)
    return snapshot(
        1,
        [],
        queues=(
            queue._replace(kept=(KeptRecords(HOSTILE, 7, 4, 25_900),)),
            queue._replace(letter_count=0, letters_failing_ms=0),
        ),
        unread=(UnreadRecords(HOSTILE, "t", 3, 1, 10_000, is_held=False),),
        rebalancing=(RebalancingGroup(HOSTILE, "Assigning", 15.0),),
        client_quotas={client_alone(HOSTILE): {"producer_byte_rate": 7.0}},
        protection=Protection(passwords=(HashedPassword(HOSTILE, "SCRAM-SHA-512", 4096),)),
    )


def test_names_that_clients_choose_are_words_of_the_commands_that_are_ready_to_paste(capsys, given):
    given(hostile())
    told = run(capsys, "--fail-on", "never").splitlines()
    commands = [line.removeprefix("         fix").strip() for line in told if "$'" in line]
    assert {command.split()[1] for command in commands} == {"configs", "groups", "queues", "quotas", "users"}
    for command in commands:
        words = subprocess.run(
            ["bash", "-c", f"set -- {command}; printf '%s\\0' \"$@\""], capture_output=True, check=True, text=True
        ).stdout.split("\0")
        assert HOSTILE in words or f"retention.hold.groups={HOSTILE}" in words, command


def test_names_that_clients_choose_are_neither_lines_of_the_report_nor_commands_to_a_terminal(capsys, given):
    given(hostile())
    told = run(capsys, "--fail-on", "never")
    assert "\x1b" not in told
    assert not [line for line in told.splitlines() if line.strip() == "fix  esp trash"]
    assert told.count("\\x1b[2J\\n         fix  esp trash") >= 5, "they stand in their lines"
