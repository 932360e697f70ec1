"""Share sessions: epochs, limits, and the connections that they end with."""

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import TopicId
from esp.share.sessions import FINAL_EPOCH, SessionKey, ShareSessions, WantedPartition

TOPIC = TopicId(uuid.UUID(int=7))
P0, P1, P2 = (WantedPartition(TOPIC, number) for number in range(3))
M, N = SessionKey("g", "m"), SessionKey("g", "n")


def refusal(call, *args):
    with pytest.raises(ApiError) as caught:
        call(*args)
    return caught.value.code


def open_(sessions, key, connection, wanted):
    """Open a session for partitions."""
    session, ended = sessions.open(key, connection, len(wanted))
    sessions.update(session, wanted, ())
    return session, ended


def test_a_session_counts_its_requests():
    sessions = ShareSessions(10)
    session, ended = open_(sessions, M, "tcp1", [P0])
    assert ended is None
    assert sessions.resume(M, 1) is session
    assert refusal(sessions.resume, M, 1) is ErrorCode.invalid_share_session_epoch
    assert sessions.resume(M, 2) is session
    assert refusal(sessions.resume, N, 1) is ErrorCode.share_session_not_found
    assert sessions.resume(M, FINAL_EPOCH) is session, "the last request needs no number"


def test_the_epoch_after_the_highest_is_1():
    sessions = ShareSessions(10)
    session, _ = open_(sessions, M, "tcp1", [P0])
    session.epoch = 2**31 - 1
    sessions.resume(M, 2**31 - 1)
    assert session.epoch == 1


def test_partitions_come_and_go_and_those_that_gave_records_wait():
    sessions = ShareSessions(10)
    session, _ = open_(sessions, M, "tcp1", [P0, P1])
    session.gave_records(P0)
    assert list(session) == [P1, P0]
    sessions.update(session, [P2, P0], [P1])
    assert list(session) == [P0, P2]
    session.gave_records(P1)
    assert list(session) == [P0, P2]


def test_sessions_and_partitions_are_bounded():
    sessions = ShareSessions(1, partitions_max=2)
    session, _ = open_(sessions, M, "tcp1", [P0, P1])
    assert refusal(open_, sessions, N, "tcp1", [P0]) is ErrorCode.share_session_limit_reached
    assert refusal(open_, sessions, M, "tcp1", [P0, P1, P2]) is ErrorCode.share_session_limit_reached
    assert refusal(sessions.update, session, [P2], []) is ErrorCode.share_session_limit_reached
    assert not session.has_ended
    assert open_(sessions, M, "tcp1", [P0])[0] is not session, "in place of its own there is room"
    sessions.close(sessions.resume(M, FINAL_EPOCH))
    open_(sessions, N, "tcp1", [P0, P1])


def test_a_connection_ends_its_own_sessions_only():
    sessions = ShareSessions(10)
    old, _ = open_(sessions, M, "tcp1", [P0])
    other, _ = open_(sessions, N, "tcp1", [P0])
    new, ended = open_(sessions, M, "tcp2", [P0])
    assert ended is old
    assert old.has_ended
    assert sessions.end_connection("tcp1") == [other]
    assert sessions.resume(M, 1) is new
    assert not sessions.has_any_on("tcp1")
    assert sessions.end_connection("tcp1") == []


def test_a_session_that_is_opened_again_on_its_connection_keeps_its_records():
    sessions = ShareSessions(10)
    old, _ = open_(sessions, M, "tcp1", [P0])
    new, ended = open_(sessions, M, "tcp1", [P1])
    assert ended is None
    assert old.has_ended, "what still waits for it gets nothing"
    sessions.close(old)
    assert sessions.resume(M, 1) is new


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["open", "close", "cut"]), st.sampled_from([M, N]), st.integers(0, 2), st.integers(0, 3)
        )
    )
)
def test_each_session_ends_once_and_the_counts_are_right(steps):
    sessions = ShareSessions(10)
    live = {}
    for step, key, connection, size in steps:
        if step == "open":
            session, ended = open_(
                sessions, key, connection, [WantedPartition(TOPIC, number) for number in range(size)]
            )
            before = live.get(key)
            assert ended is (before if before is not None and before.connection != connection else None)
            live[key] = session
        elif step == "close" and key in live:
            sessions.close(live.pop(key))
        elif step == "cut":
            ended = sessions.end_connection(connection)
            assert set(ended) == {session for session in live.values() if session.connection == connection}
            live = {key: session for key, session in live.items() if session.connection != connection}
    assert len(sessions) == len(live)
    assert sessions._partitions == sum(len(session) for session in live.values())
    assert all(sessions.has_any_on(session.connection) for session in live.values())
