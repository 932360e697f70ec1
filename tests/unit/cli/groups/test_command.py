import json
from typing import ClassVar

import pytest

from esp.cli.app import run_tools
from esp.cli.groups import command as groups_module
from esp.cli.groups import progress
from esp.cli.kafka.answers import (
    CommittedOffset,
    Coordinator,
    GroupInfo,
    GroupListing,
    GroupMember,
    PartitionId,
    RefusedError,
)
from esp.cli.kafka.groups import CoordinatorSilentError
from esp.model.errors import ErrorCode
from esp.model.unread_records import HeldRecords, Retention

T0, T1, U0, GONE = PartitionId("t", 0), PartitionId("t", 1), PartitionId("u", 0), PartitionId("gone", 0)
MEMBER = GroupMember("m-1", "static", "client", "/127.0.0.1", (T0, T1))
LIVE = GroupInfo("live", Coordinator(1, "host", 9092), "Stable", "range", (MEMBER,))
CONSUMER = GroupMember("m-2", None, "client", "/127.0.0.1", (T0,), "consumer", 7, (T0, T1))
MODERN = GroupInfo("modern", Coordinator(1, "host", 9092), "Reconciling", "uniform", (CONSUMER,), "consumer", 8, 7)
IDLE = GroupInfo("idle", Coordinator(1, "host", 9092), "Empty", "", ())


class FakeAdmin:
    """Stands for topics t and u with the offsets 10 to 100, and the groups live (with a member) and idle (without)."""

    def __init__(self, servers, within_s=None):
        self.calls = FakeAdmin.calls = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    silent: ClassVar = []
    without_leaders: ClassVar = []
    without_coordinators: ClassVar = []

    def list_groups(self, *, with_share_groups=False):
        queues = [GroupListing("queue", "Stable", "share")] if with_share_groups else []
        return (
            [GroupListing("idle", "Empty", "classic"), GroupListing("live", "Stable", "classic"), *queues],
            list(self.silent),
        )

    def describe(self, group):
        if group == "modern":
            return MODERN
        if group not in ("live", "idle"):
            raise RefusedError(ErrorCode.group_id_not_found, f"Group {group} not found.")
        if group in self.without_coordinators:
            raise CoordinatorSilentError(group, 2)
        return LIVE if group == "live" else IDLE

    def committed(self, group):
        if group == "idle":
            return {T0: CommittedOffset(40, 3), U0: CommittedOffset(100, -1), GONE: CommittedOffset(5, -1)}
        return {T0: CommittedOffset(40, -1)} if group == "live" else {}

    def partitions(self, topics=None):
        return {name: some for name, some in {"t": [T0, T1], "u": [U0]}.items() if topics is None or name in topics}

    def earliest(self, partitions):
        return dict.fromkeys(partitions, 10)

    def latest(self, partitions):
        return dict.fromkeys(partitions, 100)

    def known_ends(self, partitions):
        silent = sorted(set(partitions) & set(self.without_leaders))
        return self.latest(each for each in partitions if each not in silent), [2] if silent else []

    def since(self, partitions, timestamp_ms):
        self.calls.append(("since", timestamp_ms))
        return {each: -1 if each.partition else 60 for each in partitions}

    def commit(self, group, offsets):
        self.calls.append(("commit", group, offsets))

    def delete_offsets(self, group, partitions):
        code = ErrorCode.group_subscribed_to_topic if group == "live" else ErrorCode.none
        return dict.fromkeys(partitions, code)

    def delete_group(self, group):
        if group != "idle":
            raise RefusedError(ErrorCode.non_empty_group)
        self.calls.append(("delete", group))


@pytest.fixture(autouse=True)
def cluster(monkeypatch):
    monkeypatch.setattr(groups_module, "GroupsAdmin", FakeAdmin)
    return FakeAdmin


def run(capsys, *arguments, status=0):
    assert run_tools(("groups", *arguments)) == status
    return capsys.readouterr()


def rows(text):
    return [line.split() for line in text.splitlines() if line]


def test_name_of_a_group_is_no_second_name_in_a_list_and_no_line_of_its_own_in_a_warning(capsys, monkeypatch):
    name = "mine\nlive"
    monkeypatch.setattr(FakeAdmin, "list_groups", lambda *_, **__: ([GroupListing(name, "Empty", "classic")], []))
    monkeypatch.setattr(FakeAdmin, "describe", lambda *_: IDLE._replace(group_id=name))
    monkeypatch.setattr(FakeAdmin, "committed", lambda *_: {})
    assert run(capsys, "--list").out == r"mine\nlive" + "\n"
    told = run(capsys, "--describe", "--all-groups")
    assert told.err == r"esp: Consumer group 'mine\nlive' has no active members." + "\n"


def test_groups_are_listed_with_what_was_asked_for(capsys):
    assert run(capsys, "--list").out == "idle\nlive\n"
    assert rows(run(capsys, "--list", "--state").out) == [["GROUP", "STATE"], ["idle", "Empty"], ["live", "Stable"]]
    assert rows(run(capsys, "--list", "--state", "EMPTY", "--type").out) == [
        ["GROUP", "TYPE", "STATE"],
        ["idle", "Classic", "Empty"],
    ]
    assert json.loads(run(capsys, "--list", "--state=stable", "--json").out) == [
        {"group_id": "live", "state": "Stable", "type": "classic"}
    ]
    assert "sleepy is unknown" in run(capsys, "--list", "--state", "sleepy", status=1).err


def test_share_groups_are_listed_by_their_type_and_described_elsewhere(capsys):
    assert run(capsys, "--list", "--type", "share").out.split() == ["GROUP", "TYPE", "queue", "Share"]
    assert ["queue", "Share"] in rows(run(capsys, "--list", "--type").out)
    assert "queue" not in run(capsys, "--list", "--state").out
    assert "queue" not in run(capsys, "--describe", "--all-groups", "--state").out
    told = run(capsys, "--describe", "--group", "queue", status=1).err
    assert "group queue is a share group, which commits no offsets" in told
    assert "esp queues describe --group queue" in told


def test_ends_that_no_leader_tells_are_unknown(capsys, cluster, monkeypatch):
    monkeypatch.setattr(cluster, "without_leaders", [T0])
    told = run(capsys, "--describe", "--group", "idle")
    ends = {row[1]: (row[3], row[4], row[5]) for row in rows(told.out)[1:]}
    assert ends == {"t": ("40", "-", "-"), "u": ("100", "100", "0"), "gone": ("5", "-", "-")}
    assert "log end offsets of partitions of idle are unknown: leaders that do not answer: broker 2" in told.err


@pytest.mark.parametrize("how", [(), ("--members",), ("--state",)])
def test_groups_whose_coordinators_answer_are_described(capsys, cluster, monkeypatch, how):
    monkeypatch.setattr(cluster, "without_coordinators", ["idle"])
    told = run(capsys, "--describe", "--all-groups", *how)
    assert {row[0] for row in rows(told.out)} == {"GROUP", "live"}
    assert "the coordinator of group idle, broker 2, does not answer" in told.err
    told = run(capsys, "--describe", "--group", "idle", *how, status=1)
    assert "broker 2, does not answer: the group's members and offsets are unknown" in told.err
    assert "Start broker 2; or start controllers" in told.err


def test_lag_is_told_by_partition_with_the_member_that_reads_it(capsys):
    head = [
        "GROUP",
        "TOPIC",
        "PARTITION",
        "CURRENT-OFFSET",
        "LOG-END-OFFSET",
        "LAG",
        "CONSUMER-ID",
        "HOST",
        "CLIENT-ID",
    ]
    assert rows(run(capsys, "--describe", "--group", "live").out) == [
        head,
        ["live", "t", "0", "40", "100", "60", "m-1", "/127.0.0.1", "client"],
        ["live", "t", "1", "-", "100", "-", "m-1", "/127.0.0.1", "client"],
    ]
    told = run(capsys, "--describe", "--group", "idle", "--verbose")
    assert "no active members" in told.err
    assert rows(told.out)[1:] == [
        ["idle", "gone", "0", "-", "5", "-", "-", "-", "-", "-"],
        ["idle", "t", "0", "3", "40", "100", "60", "-", "-", "-"],
        ["idle", "u", "0", "-", "100", "100", "0", "-", "-", "-"],
    ]
    [told] = json.loads(run(capsys, "--describe", "--group", "live", "--json").out)
    assert [each["lag"] for each in told["offsets"]] == [60, None]


def test_members_and_states_are_other_views(capsys):
    told = rows(run(capsys, "--describe", "--group", "live", "--members", "--verbose").out)
    assert told[0][:6] == ["GROUP", "CONSUMER-ID", "GROUP-INSTANCE-ID", "HOST", "CLIENT-ID", "#PARTITIONS"]
    assert told[1] == ["live", "m-1", "static", "/127.0.0.1", "client", "2", "-", "t:0,1", "-", "-"]
    assert rows(run(capsys, "--describe", "--all-groups", "--state").out) == [
        ["GROUP", "COORDINATOR", "(ID)", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS", "TYPE"],
        ["idle", "host:9092", "(1)", "-", "Empty", "0", "Classic"],
        ["live", "host:9092", "(1)", "range", "Stable", "1", "Classic"],
    ]
    assert "Group nope not found." in run(capsys, "--describe", "--group", "nope", status=1).err


def test_the_epochs_and_targets_of_a_group_whose_coordinator_assigns_are_told(capsys):
    [_, member] = rows(run(capsys, "--describe", "--group", "modern", "--members", "--verbose").out)
    assert member == ["modern", "m-2", "/127.0.0.1", "client", "consumer", "1", "7", "t:0", "7", "t:0,1"]
    told = rows(run(capsys, "--describe", "--group", "modern", "--state", "--verbose").out)
    assert told[1] == ["modern", "host:9092", "(1)", "uniform", "Reconciling", "8", "7", "1", "Consumer"]
    [told] = json.loads(run(capsys, "--describe", "--group", "modern", "--state", "--json").out)
    assert (told["type"], told["epoch"], told["assignment_epoch"]) == ("consumer", 8, 7)
    assert told["members"][0]["epoch"] == 7
    assert told["members"][0]["target"] == [{"topic": "t", "partition": 0}, {"topic": "t", "partition": 1}]


def test_the_age_of_unread_records_is_told_and_the_time_until_they_are_lost(capsys, cluster, monkeypatch):
    now_ms = 1_000_000_000
    keeps = Retention(age_ms=3_600_000)
    monkeypatch.setattr(progress, "now_ms", lambda: now_ms)
    monkeypatch.setattr(
        progress,
        "look_at_held",
        lambda servers, admin, ends, group: {each: HeldRecords(50, end, keeps) for each, end in ends.items()},
    )
    monkeypatch.setattr(progress, "first_unread_times", lambda servers, offsets, held: {T0: now_ms - 120_000})
    head, gone, t0, u0 = run(capsys, "--describe", "--group", "idle", "--times").out.split("\n")[1:5]
    assert head.split()[5:8] == ["LAG", "BEHIND", "LOSS-IN"]
    assert gone.endswith("the partition is not there any more")
    assert " 2 min " in t0
    assert " 58 min " in t0
    assert t0.endswith("10 unread records are gone")
    assert u0.split()[5:8] == ["0", "-", "-"]
    [told] = json.loads(run(capsys, "--describe", "--group", "idle", "--times", "--json").out)
    assert [(each["behind_ms"], each["loss_ms"]) for each in told["offsets"]] == [
        (None, None),
        (120_000, 3_480_000),
        (None, None),
    ]
    monkeypatch.setattr(cluster, "without_leaders", [T0])
    assert "its leader does not answer" in run(capsys, "--describe", "--group", "idle", "--times").out
    monkeypatch.setattr(cluster, "without_leaders", [T1])
    *_, uncommitted = rows(run(capsys, "--describe", "--group", "live", "--times").out)
    assert uncommitted[:3] == ["live", "t", "1"]
    assert uncommitted[-5:] == ["its", "leader", "does", "not", "answer"]


def test_words_are_actions_too_and_describe_shows_all_at_once(capsys, cluster, monkeypatch):
    monkeypatch.setattr(progress, "now_ms", lambda: 1_000_000)
    monkeypatch.setattr(
        progress,
        "look_at_held",
        lambda servers, admin, ends, group: {
            each: HeldRecords(50, end, Retention(age_ms=3_600_000)) for each, end in ends.items()
        },
    )
    monkeypatch.setattr(progress, "first_unread_times", lambda servers, offsets, held: {T0: 880_000})
    told = run(capsys, "describe", "live", "idle")
    assert told.err.count("no active members") == 1
    heads = [line.split()[:3] for line in told.out.splitlines() if line.startswith("GROUP")]
    assert heads == [
        ["GROUP", "COORDINATOR", "(ID)"],
        ["GROUP", "CONSUMER-ID", "GROUP-INSTANCE-ID"],
        ["GROUP", "TOPIC", "PARTITION"],
        ["GROUP", "TOPIC", "PARTITION"],
    ]
    assert "TARGET-ASSIGNMENT-EPOCH" in told.out
    assert "LOSS-IN" in told.out
    assert " 2 min " in told.out
    [as_json] = json.loads(run(capsys, "describe", "live", "--json").out)
    assert (as_json["type"], as_json["members"][0]["member_id"]) == ("classic", "m-1")
    assert as_json["offsets"][0]["behind_ms"] == 120_000
    state = ("--group", "live", "--state")
    assert run(capsys, "describe", *state) == run(capsys, "--describe", *state)
    assert run(capsys, "describe", "--all-groups", "--members") == run(
        capsys, "--describe", "--all-groups", "--members"
    )
    assert run(capsys, "list", "--state") == run(capsys, "--list", "--state")
    run(capsys, "delete", "idle")
    assert cluster.calls == [("delete", "idle")]


MANY = tuple(PartitionId("t", number) for number in range(5_000))


@pytest.fixture
def vast_group(cluster, monkeypatch):
    """The group live reads 5,000 partitions of t and one of u; it lags in a few, of which records of two may be lost soon."""
    now_ms = 1_000_000_000
    member = MEMBER._replace(assignment=(*MANY, U0))
    offsets = dict.fromkeys(MANY, CommittedOffset(100, -1)) | {U0: CommittedOffset(100, -1)}
    offsets |= {MANY[7]: CommittedOffset(70, -1), MANY[8]: CommittedOffset(20, -1), MANY[9]: CommittedOffset(99, -1)}
    monkeypatch.setattr(cluster, "describe", lambda _self, _group: LIVE._replace(members=(member,)))
    monkeypatch.setattr(cluster, "committed", lambda _self, _group: offsets)
    monkeypatch.setattr(cluster, "partitions", lambda _self, _topics: {"t": [*MANY], "u": [U0]})
    monkeypatch.setattr(progress, "now_ms", lambda: now_ms)
    monkeypatch.setattr(
        progress,
        "look_at_held",
        lambda servers, admin, ends, group: {
            each: HeldRecords(50, end, Retention(age_ms=3_600_000)) for each, end in ends.items()
        },
    )
    monkeypatch.setattr(
        progress, "first_unread_times", lambda *_: {MANY[7]: now_ms - 120_000, MANY[9]: now_ms - 60_000}
    )


@pytest.mark.usefixtures("vast_group")
def test_describe_shows_sums_and_what_is_urgent_of_a_group_with_many_partitions(capsys):
    told = run(capsys, "describe", "live")
    assert "t:0,1,2,3,4,5,6,7,8,9,10,11,... (4989 more)" in told.out
    assert max(map(len, told.out.splitlines())) < 300
    at = next(number for number, row in enumerate(rows(told.out)) if "#LAGGING" in row)
    every, of_t, of_u, _, *urgent = rows(told.out)[at + 1 :]
    assert every == ["live", "(all)", "5001", "3", "111", "2", "min", "58", "min", "1"]
    assert of_t == ["live", "t", "5000", "3", "111", "2", "min", "58", "min", "1"]
    assert of_u == ["live", "u", "1", "0", "0", "-", "-", "0"]
    assert [row[2:6] for row in urgent] == [["8", "20", "100", "80"], ["7", "70", "100", "30"], ["9", "99", "100", "1"]]
    assert "4998 partitions more" in told.err
    assert "no unread record came of 1 partitions of live" in told.err


@pytest.mark.usefixtures("vast_group")
def test_describe_shows_all_partitions_to_who_wants_them(capsys):
    assert len(rows(run(capsys, "describe", "live", "--verbose").out)) == 5_006
    assert len(rows(run(capsys, "describe", "live", "--offsets").out)) == 5_002
    assert "4998,4999" in run(capsys, "--describe", "--group", "live", "--members", "--verbose").out
    [told] = json.loads(run(capsys, "describe", "live", "--json").out)
    assert len(told["offsets"]) == 5_001
    assert told["summary"] == {
        "partitions": 5_001,
        "lagging": 3,
        "lag": 111,
        "behind_ms": 120_000,
        "loss_ms": 3_480_000,
        "notes": 1,
    }
    assert [(each["topic"], each["lag"]) for each in told["topics"]] == [("t", 111), ("u", 0)]


@pytest.mark.usefixtures("vast_group")
def test_offsets_of_some_topics_are_described_alone(capsys):
    for how in (("describe", "live", "--offsets"), ("--describe", "--group", "live")):
        assert [row[1:3] for row in rows(run(capsys, *how, "--topic", "t:8,9", "--topic", "u").out)[1:]] == [
            ["t", "8"],
            ["t", "9"],
            ["u", "0"],
        ]
    assert ["live", "u", "0"] in [row[:3] for row in rows(run(capsys, "describe", "live", "--topic", "u").out)]
    refused = run(capsys, "describe", "live", "--members", "--topic", "u", status=1).err
    assert "--topic belongs to --describe with offsets" in refused


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("describe",), "--describe needs --group or --all-groups"),
        (("describe", "live", "--list"), "esp groups describe goes with no other action"),
        (("list", "live"), "esp groups list takes no group"),
        (("describe", "nope"), "Group nope not found."),
        (("describe", "queue"), "esp queues describe --group queue"),
        ((), "takes one of --list, --describe"),
    ],
)
def test_words_that_do_not_go_together_are_refused(capsys, arguments, word):
    assert word in " ".join(run(capsys, *arguments, status=1).err.split())


@pytest.mark.parametrize("arguments", [("--list",), ("--describe", "--members", "--group", "live")])
def test_times_belong_to_offsets(capsys, arguments):
    assert "--times belongs to --describe with offsets" in run(capsys, *arguments, "--times", status=1).err


def test_without_execute_offsets_are_only_planned(cluster, capsys):
    told = run(capsys, "--reset-offsets", "--group", "idle", "--topic", "t", "--to-earliest")
    assert rows(told.out)[1:] == [["idle", "t", "0", "10"], ["idle", "t", "1", "10"]]
    assert "--execute" in told.err
    assert run(capsys, "--reset-offsets", "--group", "idle", "--topic", "t", "--to-earliest", "--dry-run").err == ""
    assert cluster.calls == []


@pytest.mark.parametrize(
    ("arguments", "planned"),
    [
        (["--topic", "t", "--to-latest"], {T0: 100, T1: 100}),
        (["--topic", "t:1", "--to-offset", "50"], {T1: 50}),
        (["--topic", "t:0", "--shift-by", "-7"], {T0: 33}),
        (["--topic", "t", "--to-current"], {T0: 40, T1: 100}),
        (["--topic", "t", "--to-datetime", "2020-01-01T00:00:00.000"], {T0: 60, T1: 100}),
        (["--topic", "t:0", "--by-duration", "PT1H"], {T0: 60}),
        (["--all-topics", "--to-earliest"], {T0: 10, U0: 10}),
    ],
)
def test_offsets_are_committed_where_they_were_told_to_go(cluster, capsys, arguments, planned):
    run(capsys, "--reset-offsets", "--group", "idle", "--execute", *arguments)
    assert cluster.calls[-1] == ("commit", "idle", planned)


def test_an_offset_outside_the_log_is_told(capsys):
    told = run(capsys, "--reset-offsets", "--group", "idle", "--topic", "t:0", "--to-offset", "500", "--dry-run")
    assert "higher than latest" in told.err
    told = run(capsys, "--reset-offsets", "--group", "idle", "--topic", "t:0", "--shift-by", "-500", "--dry-run")
    assert "lower than earliest" in told.err


def test_what_was_exported_can_be_committed_to_another_group(cluster, capsys, tmp_path):
    exported = run(capsys, "--reset-offsets", "--group", "idle", "--topic", "t:0", "--to-current", "--export").out
    assert exported == "t,0,40\n"
    file = tmp_path / "offsets.csv"
    file.write_text(exported)
    run(capsys, "--reset-offsets", "--group", "new", "--from-file", str(file), "--execute")
    assert cluster.calls == [("commit", "new", {T0: 40})]


def test_offsets_of_a_group_with_members_stay(cluster, capsys):
    told = run(capsys, "--reset-offsets", "--group", "live", "--topic", "t", "--to-latest", "--execute", status=1)
    assert "inactive, but the current state is Stable" in told.err
    assert cluster.calls == []


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--topic", "nope", "--to-latest"], "no topic nope"),
        (["--topic", "t:7", "--to-latest"], "no partition 7"),
        (["--topic", "t:1", "--shift-by", "1"], "there is no committed offset"),
    ],
)
def test_offsets_that_cannot_be_planned_change_nothing(cluster, capsys, arguments, word):
    assert word in run(capsys, "--reset-offsets", "--group", "idle", "--execute", *arguments, status=1).err
    assert cluster.calls == []


def test_groups_are_deleted_unless_they_have_members(cluster, capsys):
    told = run(capsys, "--delete", "--group", "idle", "--group", "live", status=1)
    assert told.out == "Deletion of requested consumer groups ('idle') was successful.\n"
    assert "live (NON_EMPTY_GROUP)" in told.err
    assert cluster.calls == [("delete", "idle")]


def test_offsets_are_deleted_unless_somebody_reads_the_topic(capsys):
    told = run(capsys, "--delete-offsets", "--group", "idle", "--topic", "t:0")
    assert rows(told.out)[1:] == [["TOPIC", "PARTITION", "STATUS"], ["t", "0", "Successful"]]
    told = run(capsys, "--delete-offsets", "--group", "live", "--topic", "t", status=1)
    assert "GROUP_SUBSCRIBED_TO_TOPIC" in told.out


def test_groups_of_brokers_that_do_not_answer_are_left_out_and_that_is_told(cluster, capsys, monkeypatch):
    monkeypatch.setattr(FakeAdmin, "silent", [2, 3])
    assert run_tools(["groups", "--list"]) == 0
    told = capsys.readouterr()
    assert told.out
    assert "do not answer are left out: 2, 3" in told.err
