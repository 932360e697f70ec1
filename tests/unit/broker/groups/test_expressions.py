"""Expressions of members are matched in slices beside the loop, once for all that bring them."""

import asyncio
from types import SimpleNamespace

import pytest

from esp.broker.groups import expressions as module
from esp.broker.groups.expressions import SLICE, Expressions
from esp.broker.tasks import Tasks
from esp.model.errors import ApiError, ErrorCode
from esp.protocol.registry import ApiKey
from tests.unit.broker.conversation import create_topic, ms
from tests.unit.broker.group_conversation import until_coordinated
from tests.unit.broker.simulated_node import model, simulated

COUNT = 10_000


class Counted:
    """Threads that are none, and count what is done in them; a call takes ``cost_us``."""

    def __init__(self):
        self.calls = 0
        self.most = 0
        self.cost_us = 0
        self.now_us = 0

    async def run(self, function, *args):
        await asyncio.sleep(0)
        self.calls += 1
        self.now_us += self.cost_us
        if function is module.match_names:
            self.most = max(self.most, len(args[1]))
        return function(*args)

    def monotonic_us(self):
        return self.now_us


def made(count=COUNT):
    metadata = SimpleNamespace(image=SimpleNamespace(topics_by_name={f"t{number}": number for number in range(count)}))
    cpu = Counted()
    tasks = Tasks(SimpleNamespace(fatal=pytest.fail))
    return Expressions(metadata, SimpleNamespace(cpu=cpu, clock=cpu), tasks), metadata, cpu


def test_a_hundred_expressions_over_ten_thousand_topics_are_slices_and_each_is_matched_once():
    async def main():
        expressions, _, cpu = made()
        regexes = [f"t{number}.*" for number in range(100)]
        await asyncio.gather(*(expressions.look(regex) for regex in regexes * 3))
        assert cpu.most == SLICE
        assert cpu.calls == 100 * (1 + -(-COUNT // SLICE))
        assert expressions.find("t7.*")[:3] == ("t7", "t70", "t700")
        await asyncio.gather(*map(expressions.look, regexes))
        assert cpu.calls == 100 * (1 + -(-COUNT // SLICE))

    asyncio.run(main())


def test_other_topics_have_it_looked_for_again_and_none_that_only_change_do_not():
    async def main():
        expressions, metadata, cpu = made(3)
        await expressions.look("t.")
        calls = cpu.calls
        metadata.image.topics_by_name = dict(metadata.image.topics_by_name)
        assert expressions.find("t.") == ("t0", "t1", "t2")
        metadata.image.topics_by_name = {**metadata.image.topics_by_name, "tx": 1, "ty1": 2}
        assert not expressions.knows("t.")
        assert expressions.find("t.") is None, "it is being looked for"
        assert expressions.find("t.") is None
        await expressions.look("t.")
        assert expressions.find("t.") == ("t0", "t1", "t2", "tx")
        assert cpu.calls == 2 * calls, "looked for once"

    asyncio.run(main())


def test_what_is_no_expression_or_takes_too_long_is_refused_whenever_it_comes():
    async def main():
        expressions, _, cpu = made()
        await expressions.look("(")
        with pytest.raises(ApiError, match="not a valid regular expression"):
            expressions.find("(")
        cpu.cost_us = module.LIMIT_US // 10
        await expressions.look("t+")
        assert cpu.calls < 20
        for _ in range(2):
            with pytest.raises(ApiError, match="takes longer than 10 s for 10000 topics") as refusal:
                expressions.find("t+")
            assert refusal.value.code is ErrorCode.invalid_regular_expression
        assert cpu.calls < 20

    asyncio.run(main())


def test_those_that_were_asked_for_last_are_remembered(monkeypatch):
    monkeypatch.setattr(module, "KEPT_MAX", 2)

    async def main():
        expressions, _, _ = made(3)
        for regex in ("t0", "t1", "t0", "t2"):
            await expressions.look(regex)
        assert [expressions.knows(regex) for regex in ("t0", "t1", "t2")] == [True, False, True]

    asyncio.run(main())


def test_what_is_remembered_is_bounded_by_its_size_and_forgotten_when_there_are_other_topics(monkeypatch):
    async def main():
        expressions, metadata, _ = made(1_000)
        await expressions.look("t.*")
        monkeypatch.setattr(module, "KEPT_BYTES_MAX", 4 * 8 * 1_000)
        for number in range(8):
            await expressions.look(f"t.*|{number}")
            await expressions.look("t.*")
        known = [number for number in range(8) if expressions.knows(f"t.*|{number}")]
        assert known == [6, 7]
        assert expressions.knows("t.*"), "it is asked for all the time"
        metadata.image.topics_by_name = {"other": 1}
        assert not expressions.knows("t.*")
        for number in range(8):
            await expressions.look(f"oth.*|{number}")
        assert all(expressions.knows(f"oth.*|{number}") for number in range(8))

    asyncio.run(main())


def test_result_for_topics_that_have_changed_meanwhile_is_not_kept():
    async def main():
        expressions, metadata, _ = made(3)
        looking = asyncio.ensure_future(expressions.look("t.*"))
        await asyncio.sleep(0)
        metadata.image.topics_by_name = {"t9": 1}
        await looking
        assert not expressions.knows("t.*")
        await expressions.look("t.*")
        assert expressions.find("t.*") == ("t9",)

    asyncio.run(main())


def test_refusal_keeps_nothing_of_the_requests_that_it_answers():
    async def main():
        expressions, _, _ = made(3)
        await expressions.look("(")
        lengths = set()
        for _ in range(3):
            with pytest.raises(ApiError) as refusal:
                expressions.find("(")
            lengths.add(len(refusal.traceback))
        assert len(lengths) == 1

    asyncio.run(main())


async def beat(client, regex, epoch=0, member="m", group="g"):
    types = model(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1)
    joins = {"rebalance_timeout": ms(60_000), "topic_partitions": ()} if epoch == 0 else {"topic_partitions": None}
    request = types.Request(
        group_id=group,
        member_id=member,
        member_epoch=epoch,
        instance_id=None,
        rack_id=None,
        subscribed_topic_names=None,
        subscribed_topic_regex=regex,
        server_assignor=None,
        **joins,
    )
    return await client.call(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, request)


def assigned(answer):
    return None if answer.assignment is None else sum(len(one.partitions) for one in answer.assignment.topic_partitions)


@simulated(offsets_topic_num_partitions=1, group_consumer_assignment_interval_ms=0)
async def test_a_member_has_the_topics_of_its_expression_at_once_and_those_that_come_later_soon(node):
    client = await node.client()
    await create_topic(client, "orders-a", partitions=2)
    await create_topic(client, "other")
    await until_coordinated(client)
    joined = await beat(client, "orders-.*")
    assert (joined.error_code, assigned(joined)) == (ErrorCode.none, 2)
    epoch = joined.member_epoch
    await create_topic(client, "orders-b", partitions=3)
    for _ in range(10):
        answer = await beat(client, None, epoch)
        epoch = answer.member_epoch
        if assigned(answer) == 5:
            break
        await asyncio.sleep(0.1)
    assert assigned(answer) == 5
    assert (await beat(client, "(", group="h")).error_code is ErrorCode.invalid_regular_expression
    assert (await beat(client, "orders-.*|" * 900, group="h")).error_code is ErrorCode.none
