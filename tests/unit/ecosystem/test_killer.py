"""The killer of programs and nodes."""

import threading

import pytest

from tests.ecosystem.killer import Killer
from tests.ecosystem.waiting import TooLateError, wait_for


class Counted:
    """A victim that notes its kills in a list that it shares with others."""

    def __init__(self, name: str, kills: list[str]) -> None:
        self.name = name
        self._kills = kills

    def kill_and_start(self, stopping: threading.Event) -> None:
        self._kills.append(self.name)


class Stubborn(Counted):
    """A victim that cannot be started again."""

    def kill_and_start(self, stopping: threading.Event) -> None:
        raise RuntimeError("does not start")


def test_victims_take_turns() -> None:
    kills: list[str] = []
    with Killer([Counted("a", kills), Counted("b", kills)], 0.001) as killer:
        wait_for(lambda: killer.has_killed(4), 10, "four kills")
    assert kills[:4] == ["a", "b", "a", "b"]


def test_without_victims_all_kills_are_done() -> None:
    with Killer([], 0.001) as killer:
        assert killer.has_killed(4)


def test_failed_start_is_raised_where_kills_are_waited_for() -> None:
    killer = Killer([Stubborn("a", [])], 0.001)
    with pytest.raises(RuntimeError, match="does not start"), killer:
        wait_for(lambda: killer.has_killed(2), 10, "two kills")


def test_failed_start_is_raised_when_the_kills_end() -> None:
    asked = threading.Event()

    class Signalling(Stubborn):
        def kill_and_start(self, stopping: threading.Event) -> None:
            asked.set()
            super().kill_and_start(stopping)

    with pytest.raises(RuntimeError, match="does not start"), Killer([Signalling("a", [])], 0.001):
        assert asked.wait(10)


def test_waiting_has_an_end_and_names_its_condition() -> None:
    with pytest.raises(TooLateError, match="a miracle: not within 0 s"):
        wait_for(lambda: False, 0.01, "a miracle")
