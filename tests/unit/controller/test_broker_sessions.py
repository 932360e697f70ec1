"""Sessions of brokers, on the controller's own clock (BRK-6)."""

from hypothesis import given
from hypothesis import strategies as st

from esp.controller.broker_sessions import NO_SHUTDOWN, BrokerSessions
from esp.model.ids import BrokerEpoch, NodeId
from tests.unit.controller.samples import Cluster

_ONE, _TWO = NodeId(1), NodeId(2)
_EPOCH, _LATER = BrokerEpoch(7), BrokerEpoch(9)


def test_a_session_lasts_its_time_after_each_heartbeat_and_no_longer():
    sessions = BrokerSessions(100)
    sessions.begin(_ONE, _EPOCH, 0)
    sessions.touch(_ONE, _EPOCH, 50, 3)
    assert sessions.is_live(_ONE, _EPOCH, 149)
    assert sessions.expired(149) == []
    assert not sessions.is_live(_ONE, _EPOCH, 150)
    assert sessions.expired(150) == [(_ONE, _EPOCH)]


def test_only_the_incarnation_that_was_heard_of_is_alive():
    sessions = BrokerSessions(100)
    sessions.begin(_ONE, _EPOCH, 0)
    assert not sessions.is_live(_ONE, _LATER, 1)
    sessions.begin(_ONE, _LATER, 1)
    assert not sessions.is_live(_ONE, _EPOCH, 1)
    sessions.end(_ONE, _EPOCH)
    assert sessions.is_live(_ONE, _LATER, 1)
    sessions.end(_ONE, _LATER)
    assert not sessions.is_live(_ONE, _LATER, 1)


def test_all_that_serve_begin_in_full_when_a_controller_becomes_active():
    cluster = Cluster(3)
    cluster.fence(3)
    sessions = BrokerSessions(100)
    sessions.begin(_ONE, BrokerEpoch(1), 0)
    sessions.restart(cluster.image.brokers.values(), 90, {})
    assert sessions.next_deadline_us() == 190
    assert sessions.expired(190) == [(_ONE, cluster.epoch(1)), (_TWO, cluster.epoch(2))]


def test_the_session_of_a_broker_that_was_heard_of_earlier_has_begun_then():
    cluster = Cluster(2)
    sessions = BrokerSessions(100)
    sessions.restart(cluster.image.brokers.values(), 90, {_ONE: 50})
    assert sessions.expired(149) == []
    assert sessions.expired(150) == [(_ONE, cluster.epoch(1))]
    assert sessions.expired(190) == [(_ONE, cluster.epoch(1)), (_TWO, cluster.epoch(2))]


def test_a_broker_that_was_silent_for_long_has_a_part_of_its_time_left_to_find_the_new_controller():
    sessions = BrokerSessions(100)
    sessions.restart(Cluster(1).image.brokers.values(), 1000, {_ONE: 5})
    assert sessions.expired(1024) == []
    assert [node_id for node_id, _ in sessions.expired(1025)] == [_ONE]


def test_renewal_gives_everybody_the_full_time():
    sessions = BrokerSessions(100)
    sessions.begin(_ONE, _EPOCH, 0)
    sessions.begin(_TWO, _EPOCH, 50)
    sessions.renew(500)
    assert sessions.expired(599) == []
    assert sessions.next_deadline_us() == 600


def test_time_is_given_anew_once_between_two_heartbeats():
    sessions = BrokerSessions(100)
    sessions.begin(_ONE, _EPOCH, 0)
    sessions.begin(_TWO, _EPOCH, 0)
    sessions.renew(150)
    sessions.touch(_TWO, _EPOCH, 200, 1)
    for late_us in (260, 400, 540):
        sessions.renew(late_us)
    assert sessions.expired(249) == []
    assert sessions.expired(250) == [(_ONE, _EPOCH)], "a silent broker is fenced however late its controller is"
    assert sessions.expired(360) == [(_ONE, _EPOCH), (_TWO, _EPOCH)]


def test_a_session_is_unheard_until_its_first_heartbeat():
    sessions = BrokerSessions(100)
    assert not sessions.is_unheard(_ONE, _EPOCH)
    sessions.begin(_ONE, _EPOCH, 0)
    assert sessions.is_unheard(_ONE, _EPOCH)
    assert not sessions.is_unheard(_ONE, _LATER)
    sessions.touch(_ONE, _EPOCH, 1, 0)
    assert not sessions.is_unheard(_ONE, _EPOCH)


def test_a_shutdown_keeps_the_offset_that_was_said_first_and_ends_with_its_session():
    sessions = BrokerSessions(100)
    sessions.begin(_ONE, _EPOCH, 0)
    sessions.begin_shutdown(_ONE, 5)
    sessions.begin_shutdown(_ONE, 8)
    sessions.touch(_ONE, _EPOCH, 10, 1)
    assert sessions.shutdown_offset(_ONE) == 5
    sessions.begin(_ONE, _LATER, 20)
    assert sessions.shutdown_offset(_ONE) == NO_SHUTDOWN
    assert sessions.shutdown_offset(_TWO) == NO_SHUTDOWN


def test_whoever_has_not_said_how_far_it_is_holds_up_a_shutdown():
    cluster = Cluster(2)
    brokers = cluster.image.brokers.values()
    sessions = BrokerSessions(100)
    sessions.restart(brokers, 0, {})
    sessions.touch(_ONE, cluster.epoch(1), 1, 10)
    assert not sessions.all_have_read(brokers, 10)
    sessions.touch(_TWO, cluster.epoch(2), 1, 9)
    assert not sessions.all_have_read(brokers, 10)
    sessions.touch(_TWO, cluster.epoch(2), 1, 10)
    assert sessions.all_have_read(brokers, 10)
    cluster.fence(2)
    sessions.touch(_TWO, cluster.epoch(2), 1, 2)
    assert sessions.all_have_read(cluster.image.brokers.values(), 10)  # who is fenced need not know


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 50)), max_size=30))
def test_the_next_deadline_is_the_first_expiry(heartbeats):
    sessions = BrokerSessions(100)
    heard = {}
    now = 0
    for number, later in heartbeats:
        now += later
        sessions.touch(NodeId(number), _EPOCH, now, 0)
        heard[number] = now
    first = min(heard.values(), default=None)
    assert sessions.next_deadline_us() == (None if first is None else first + 100)
    for moment in range(now, now + 110, 7):
        assert {node for node, _ in sessions.expired(moment)} == {n for n, at in heard.items() if at + 100 <= moment}
