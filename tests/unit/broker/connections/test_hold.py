import pytest

from esp.broker.request import ConnectionHold


def test_its_owner_is_told_of_every_change_and_of_a_refusal_first():
    hold = ConnectionHold()
    told = []
    hold.attach(lambda: told.append(hold.is_held), told.append)
    hold.begin()
    hold.end()
    hold.begin()
    hold.end("no such topic")
    assert told == [True, False, True, "no such topic", False]


def test_a_held_connection_is_not_held_again():
    hold = ConnectionHold()
    hold.begin()
    with pytest.raises(AssertionError):
        hold.begin()


def test_requests_of_the_node_s_own_hold_nothing():
    hold = ConnectionHold()
    hold.begin()
    hold.end("refused")
    assert not hold.is_held
