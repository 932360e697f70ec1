"""A node waits until it has applied what the leader of the quorum has, with a leader and a metadata cache that the test plays."""

import asyncio
from types import SimpleNamespace

import pytest

from esp.broker.following import FOLLOW_TIMEOUT_MS, until_follows
from esp.model.errors import ApiError, ErrorCode
from tests.unit.broker.played_server import in_world


class Quorum:
    """Answers one description after the other: the leader's id, and the log ends of voters and observers by their ids."""

    def __init__(self, *answers):
        self.answers = list(answers)

    async def call(self, _api_key, _message, *, timeout_ms):
        leader_id, voters, observers = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

        def members(ends):
            return [SimpleNamespace(replica_id=number, log_end_offset=end) for number, end in ends.items()]

        partition = SimpleNamespace(leader_id=leader_id, current_voters=members(voters), observers=members(observers))
        return SimpleNamespace(topics=[SimpleNamespace(partitions=[partition])])


class Metadata:
    """Is applied up to an offset that rises by one each second."""

    def __init__(self, offset):
        self.offset = offset

    async def until(self, condition):
        while not condition(SimpleNamespace(offset=self.offset)):
            await asyncio.sleep(1)
            self.offset += 1


def follow(offset, *answers):
    """The seconds that the wait takes for a node that has applied ``offset``."""
    taken = []

    @in_world
    async def scenario(world):
        services = SimpleNamespace(env=world.env, controller=Quorum(*answers), metadata=Metadata(offset))
        begun = asyncio.get_running_loop().time()
        try:
            await until_follows(services)
        finally:
            taken.append(asyncio.get_running_loop().time() - begun)

    scenario()
    return taken[0]


LED_BY_1 = (1, {1: 100, 2: 90, 3: 120}, {})


def test_a_node_that_has_everything_does_not_wait():
    assert follow(99, LED_BY_1) == pytest.approx(0)


def test_a_node_waits_for_the_end_of_the_leaders_log():
    assert follow(97, LED_BY_1) == pytest.approx(2)


def test_a_leader_that_has_removed_itself_is_an_observer():
    assert follow(97, (1, {2: 90}, {1: 99, 4: 50})) == pytest.approx(1)


def test_a_node_that_does_not_lead_any_more_is_asked_again():
    assert follow(98, (-1, {}, {}), (-1, {}, {}), LED_BY_1) == pytest.approx(1.1)


@pytest.mark.parametrize("answer", [(-1, {}, {}), LED_BY_1])
def test_a_change_that_does_not_count_here_in_time_is_not_acknowledged(answer):
    with pytest.raises(ApiError, match="does not follow it yet") as refused:
        follow(10, answer)
    assert refused.value.code is ErrorCode.request_timed_out
    assert FOLLOW_TIMEOUT_MS < 60_000
