import pytest

from esp.groups.appends import Appends, answer_to
from esp.groups.deadlines import Deadlines
from esp.groups.effects import Outbox
from esp.model.errors import ErrorCode
from esp.model.now import Now
from esp.records.builder import NewRecord

RECORDS = [NewRecord(b"value", b"key")]
TIMEOUT_US = 100


class Told:
    """Remembers what it is told."""

    def __init__(self):
        self.settled, self.outcomes = [], []

    def settle(self, error, _now):
        self.settled.append(error)

    def outcome(self, error, _now):
        self.outcomes.append(error)


class Line:
    """Remembers who was told in which order."""

    def __init__(self, appends):
        self.appends, self.lines, self.tokens = appends, [], {}

    def append(self, name, *groups):
        self.tokens[name] = self.appends.append(
            RECORDS,
            Now(0, 0),
            settle=lambda error, _now: self.lines.append(("settled", name, error)),
            outcome=lambda error, _now: self.lines.append(("told", name, error)),
            groups=groups,
        )


@pytest.fixture
def deadlines():
    return Deadlines()


@pytest.fixture
def appends(deadlines):
    return Appends(Outbox(), deadlines, TIMEOUT_US)


def append(appends, told, at_us=0):
    return appends.append(RECORDS, Now(at_us, 0), settle=told.settle, outcome=told.outcome)


def test_what_is_committed_is_settled_and_told(appends):
    told = Told()
    appends.on_committed(append(appends, told), Now(1, 0))
    assert (told.settled, told.outcomes) == ([None], [None])


def test_what_failed_is_told_as_clients_hear_it(appends):
    told = Told()
    appends.on_failed(append(appends, told), ErrorCode.not_leader_or_follower, Now(1, 0))
    assert (told.settled, told.outcomes) == ([ErrorCode.not_coordinator], [ErrorCode.not_coordinator])


def test_what_rests_on_a_failed_append_fails_with_it_the_last_one_first(appends):
    line, failure = Line(appends), ErrorCode.coordinator_not_available
    line.append("before", "g")
    line.append("first", "g")
    line.append("of another group", "h")
    line.append("of both", "g", "i")
    line.append("of no group")
    line.append("of the other", "i")
    appends.on_failed(line.tokens["first"], ErrorCode.not_enough_replicas, Now(1, 0))
    names = ["first", "of both", "of the other"]
    assert line.lines == [
        *(("settled", name, failure) for name in reversed(names)),
        *(("told", name, failure) for name in names),
    ]
    withdrawn = [name for name, token in line.tokens.items() if appends.is_withdrawn(token)]
    assert withdrawn == ["of both", "of the other"]
    assert not any(map(appends.is_withdrawn, line.tokens.values())), "it is asked for once"
    for name in ("before", "of another group", "of no group"):
        appends.on_committed(line.tokens[name], Now(2, 0))
    assert [name for what, name, error in line.lines[6:] if what == "told" and error is None] == [
        *("before", "of another group", "of no group")
    ]


def test_what_takes_too_long_is_told_once_and_settled_later(appends, deadlines):
    told = [Told(), Told()]
    tokens = [append(appends, told[0]), append(appends, told[1], 50)]
    deadlines.run(Now(TIMEOUT_US, 0))
    assert [it.outcomes for it in told] == [[ErrorCode.coordinator_not_available], []]
    assert deadlines.next_us == TIMEOUT_US + 50
    for token in tokens:
        appends.on_committed(token, Now(TIMEOUT_US, 0))
    assert [it.outcomes for it in told] == [[ErrorCode.coordinator_not_available], [None]]
    assert [it.settled for it in told] == [[None], [None]]


def test_what_waits_for_all_is_told_when_the_last_has_settled(appends):
    told = Told()
    appends.after_all(told.outcome, Now(0, 0))
    assert told.outcomes == [None]
    first, second = append(appends, Told()), append(appends, Told())
    appends.after_all(told.outcome, Now(0, 0))
    appends.on_committed(first, Now(0, 0))
    assert told.outcomes == [None]
    appends.on_committed(second, Now(0, 0))
    assert told.outcomes == [None, None]


def test_abandoned_appends_are_told_and_never_settled(appends):
    told = Told()
    append(appends, told)
    appends.abandon(ErrorCode.not_coordinator)
    assert (told.settled, told.outcomes) == ([], [ErrorCode.not_coordinator])


@pytest.mark.parametrize(
    ("error", "answer"),
    [
        ("unknown_topic_or_partition", "coordinator_not_available"),
        ("not_enough_replicas", "coordinator_not_available"),
        ("request_timed_out", "coordinator_not_available"),
        ("not_leader_or_follower", "not_coordinator"),
        ("kafka_storage_error", "not_coordinator"),
        ("message_too_large", "unknown_server_error"),
        ("record_list_too_large", "unknown_server_error"),
        ("coordinator_load_in_progress", "coordinator_load_in_progress"),
    ],
)
def test_errors_of_the_log_become_those_of_a_coordinator(error, answer):
    assert answer_to(ErrorCode[error]) is ErrorCode[answer]
