"""Questions to coordinators about transactions, against coordinators that the test plays."""

import asyncio
from random import Random
from types import SimpleNamespace

import pytest

from esp.broker.connections.peer import PeerUnavailableError
from esp.broker.tasks import Tasks
from esp.broker.transactions.verifier import Producer, Protocol, RetryBackoff, TransactionVerifier, Unverified
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import TopicPartition
from esp.ports.network import Address
from esp.replication.end_marker import EndMarker
from esp.replication.transaction_clients import TransactionClient
from esp.replication.verification import OPEN, UNVERIFIED
from esp.simulation.machine.env import simulated_disk, simulated_env
from esp.simulation.machine.network import SimulatedNetwork
from tests.unit.broker import scenarios
from tests.unit.broker.played_coordinators import PlayedCoordinators
from tests.unit.replication.test_verification import PID, append, guard_of, lone

BACKOFF = RetryBackoff(20, 100)
OURS = Producer("x", PID, 0)
CLIENT = TransactionClient("producer-1", "127.0.0.1")


async def _play(loop, scenario):
    disk = simulated_disk(loop, Random(1))
    process = loop.new_process("node")
    env = simulated_env(loop, Random(2), process, disk, SimulatedNetwork(loop, Random(3)), boot_id="boot")
    await process.run(scenario(SimpleNamespace(loop=loop, clock=env.clock, tasks=Tasks(env.host))))


played = scenarios.played(_play)


class Coordinators(PlayedCoordinators):
    """Coordinators, and the node that asks them."""

    def __init__(self, world):
        super().__init__()
        self.is_enabled = True
        self.verifier = TransactionVerifier(world.clock, world.tasks, self, BACKOFF, lambda: self.is_enabled)


def batch_for(leader, partition=0, sequence=0):
    return Unverified(SimpleNamespace(name=TopicPartition("t", partition)), leader, sequence, CLIENT)


async def verify(coordinators, *leaders, producer=OURS, protocol=Protocol.OLD):
    batches = [batch_for(leader, partition) for partition, leader in enumerate(leaders)]
    results = await coordinators.verifier.verify(producer, batches, protocol)
    return [result.code if isinstance(result, ApiError) else result for result in results]


@played
async def test_a_confirmed_batch_may_be_appended(world):
    coordinators, leader = Coordinators(world), lone()
    (guard,) = await verify(coordinators, leader)
    append(leader, 0, guard=guard)
    ((node, request),) = coordinators.asked
    (asked,) = request.transactions
    assert (node, asked.transactional_id, asked.producer_id, asked.producer_epoch) == (1, "x", PID, 0)
    assert asked.verify_only
    assert [(topic.name, topic.partitions) for topic in asked.topics] == [("t", (0,))]


@played
async def test_version_2_has_the_partition_added(world):
    coordinators, leader = Coordinators(world), lone()
    await verify(coordinators, leader, protocol=Protocol.IMPLICIT)
    ((_, request),) = coordinators.asked
    assert not request.transactions[0].verify_only


@played
async def test_no_question_is_asked_where_the_transaction_is_open(world):
    coordinators, leader = Coordinators(world), lone()
    append(leader, 0)
    assert await verify(coordinators, leader) == [OPEN]
    assert coordinators.asked == []


@played
async def test_no_question_is_asked_about_a_producer_that_the_log_has_seen_with_a_higher_epoch(world):
    coordinators, leader = Coordinators(world), lone()
    leader.append_marker(EndMarker(PID, 1, False, 0), 0)
    assert await verify(coordinators, leader) == [ErrorCode.invalid_producer_epoch]
    assert coordinators.asked == []


@played
async def test_batches_that_wait_for_a_coordinator_are_counted_with_their_time(world):
    coordinators, leader = Coordinators(world), lone()
    coordinators.gate.clear()
    world.loop.call_later(0.25, coordinators.gate.set)
    await verify(coordinators, leader, lone())
    verifier = coordinators.verifier
    assert (verifier.verified, verifier.failures) == (2, 0)
    assert 500_000 <= verifier.verifying_us < 510_000
    append(leader, 0)
    coordinators.say(ErrorCode.invalid_txn_state, partition=1)
    await verify(coordinators, leader, lone())
    assert (verifier.verified, verifier.failures) == (3, 1)


@played
async def test_verification_can_be_switched_off_for_clients_that_add_partitions(world):
    coordinators, leader = Coordinators(world), lone()
    coordinators.is_enabled = False
    assert await verify(coordinators, leader) == [UNVERIFIED]
    assert coordinators.asked == []
    await verify(coordinators, leader, protocol=Protocol.IMPLICIT)
    assert len(coordinators.asked) == 1


@played
async def test_a_marker_between_answer_and_append_makes_the_guard_void(world):
    coordinators, leader = Coordinators(world), lone()
    (guard,) = await verify(coordinators, leader)
    leader.append_marker(EndMarker(PID, 0, False, 0), 0)
    with pytest.raises(ApiError) as caught:
        append(leader, 0, guard=guard)
    assert caught.value.code is ErrorCode.invalid_txn_state


@played
async def test_a_marker_of_the_last_transaction_that_arrives_while_the_next_waits_does_not_spoil_it(world):
    """KAFKA-18575: the coordinator is asked again, with a guard that is newer than the marker."""
    coordinators, leader = Coordinators(world), lone()
    append(leader, 0)
    coordinators.say(ErrorCode.concurrent_transactions)

    def complete():
        if len(coordinators.asked) == 2:
            leader.append_marker(EndMarker(PID, 1, True, 0, 2), 0)
        elif len(coordinators.asked) == 3:
            coordinators.say(ErrorCode.none)

    coordinators.on_question = complete
    producer = OURS._replace(producer_epoch=1)
    (guard,) = await verify(coordinators, leader, producer=producer, protocol=Protocol.IMPLICIT)
    append(leader, 0, epoch=1, guard=guard)
    assert len(coordinators.asked) == 3


@played
async def test_version_2_is_asked_again_for_a_while_only(world):
    coordinators, leader = Coordinators(world), lone()
    coordinators.say(ErrorCode.concurrent_transactions)
    began = world.loop.time()
    assert await verify(coordinators, leader, protocol=Protocol.IMPLICIT) == [ErrorCode.concurrent_transactions]
    assert 0.1 <= world.loop.time() - began < 0.2
    assert 4 <= len(coordinators.asked) <= 7


@played
async def test_version_1_is_told_of_a_pending_transaction_at_once(world):
    coordinators, leader = Coordinators(world), lone()
    coordinators.say(ErrorCode.concurrent_transactions)
    assert await verify(coordinators, leader) == [ErrorCode.concurrent_transactions]
    assert len(coordinators.asked) == 1


@pytest.mark.parametrize(
    ("protocol", "code", "told"),
    [
        (Protocol.OLD, ErrorCode.transaction_abortable, ErrorCode.invalid_txn_state),
        (Protocol.ABORTABLE, ErrorCode.transaction_abortable, ErrorCode.transaction_abortable),
        (Protocol.IMPLICIT, ErrorCode.transaction_abortable, ErrorCode.transaction_abortable),
        (Protocol.OLD, ErrorCode.producer_fenced, ErrorCode.invalid_producer_epoch),
        (Protocol.OLD, ErrorCode.invalid_producer_id_mapping, ErrorCode.invalid_producer_id_mapping),
        (Protocol.OLD, ErrorCode.coordinator_load_in_progress, ErrorCode.coordinator_load_in_progress),
        (Protocol.OLD, ErrorCode.coordinator_not_available, ErrorCode.coordinator_not_available),
        (Protocol.IMPLICIT, ErrorCode.not_coordinator, ErrorCode.not_coordinator),
    ],
)
@played
async def test_the_coordinators_error_as_the_producer_is_told(world, protocol, code, told):
    coordinators, leader = Coordinators(world), lone()
    coordinators.say(code)
    assert await verify(coordinators, leader, protocol=protocol) == [told]


@played
async def test_a_lost_answer_is_no_verdict_and_the_guard_stays(world):
    coordinators, leader = Coordinators(world), lone()
    before = guard_of(leader)
    coordinators.fails = PeerUnavailableError(Address("h", 1), "gone")
    assert await verify(coordinators, leader) == [ErrorCode.network_exception]
    coordinators.fails = None
    assert await verify(coordinators, leader) == [before]


@played
async def test_a_coordinator_that_moved_is_looked_up_anew(world):
    coordinators, leader = Coordinators(world), lone()
    coordinators.top_error = ErrorCode.not_coordinator
    assert await verify(coordinators, leader) == [ErrorCode.not_coordinator]
    coordinators.top_error, coordinators.nodes = ErrorCode.none, {"x": 2}
    await verify(coordinators, leader)
    assert [node for node, _ in coordinators.asked] == [1, 2]


@played
async def test_without_a_coordinator_the_producer_is_to_come_again(world):
    coordinators, leader = Coordinators(world), lone()
    coordinators.nodes = {"x": None}
    assert await verify(coordinators, leader) == [ErrorCode.coordinator_not_available]


@played
async def test_a_refused_batch_leaves_no_guard_and_others_of_the_request_are_appended(world):
    coordinators, leaders = Coordinators(world), (lone(), lone())
    coordinators.say(ErrorCode.transaction_abortable, partition=1)
    first, second = await verify(coordinators, *leaders)
    assert second is ErrorCode.invalid_txn_state
    append(leaders[0], 0, guard=first)
    assert leaders[1]._verifications._find(PID, 0) is None


@played
async def test_questions_that_come_while_one_is_asked_go_out_together(world):
    coordinators = Coordinators(world)
    coordinators.gate.clear()
    producers = [OURS, *(Producer(f"y{number}", 100 + number, 0) for number in range(5))]
    questions = []
    for producer in producers:
        questions.append(asyncio.ensure_future(verify(coordinators, lone(), producer=producer)))
        await asyncio.sleep(0.001)
    assert len(coordinators.asked) == 1
    coordinators.gate.set()
    await asyncio.gather(*questions)
    sizes = [len(request.transactions) for _, request in coordinators.asked]
    assert sizes == [1, 5]


@played
async def test_questions_about_one_transaction_are_joined_and_none_is_thrown_out(world):
    coordinators = Coordinators(world)
    coordinators.gate.clear()
    verifier = coordinators.verifier
    questions = []
    for partition in (0, 1, 2, 1):
        questions.append(asyncio.ensure_future(verifier.verify(OURS, [batch_for(lone(), partition)], Protocol.OLD)))
        await asyncio.sleep(0.001)
    newer = asyncio.ensure_future(
        verifier.verify(OURS._replace(producer_epoch=1), [batch_for(lone(), 4)], Protocol.OLD)
    )
    await asyncio.sleep(0.01)
    coordinators.say(ErrorCode.transaction_abortable, partition=2)
    coordinators.gate.set()
    results = [(await question)[0] for question in questions]
    assert [isinstance(result, ApiError) for result in results] == [False, False, True, False]
    assert not isinstance((await newer)[0], ApiError)
    asked = [
        [(transaction.producer_epoch, transaction.topics[0].partitions) for transaction in request.transactions]
        for _, request in coordinators.asked
    ]
    assert asked == [[(0, (0,))], [(0, (1, 2))], [(1, (4,))]]


@played
async def test_a_question_that_was_asked_just_before_the_node_stops_ends(world):
    coordinators = Coordinators(world)
    coordinators.gate.clear()
    question = asyncio.ensure_future(verify(coordinators, lone()))
    await asyncio.sleep(0.01)
    await world.tasks.stop()
    with pytest.raises(asyncio.CancelledError):
        await question


def here(world):
    """Coordinators of which all are at the node that asks."""
    coordinators = Coordinators(world)
    coordinators.node_id = coordinators.find("x")
    return coordinators


@played
async def test_a_coordinator_of_this_node_is_asked_without_a_message(world):
    coordinators, leader = here(world), lone()
    (guard,) = await verify(coordinators, leader)
    append(leader, 0, guard=guard)
    await verify(coordinators, lone(), lone(), protocol=Protocol.IMPLICIT)
    assert coordinators.asked == []
    assert coordinators.asked_here == [
        (OURS, (TopicPartition("t", 0),), False),
        (OURS, (TopicPartition("t", 0), TopicPartition("t", 1)), True),
    ]
    coordinators.say(ErrorCode.invalid_producer_id_mapping)
    assert await verify(coordinators, lone()) == [ErrorCode.invalid_producer_id_mapping]


@played
async def test_questions_that_come_before_this_node_has_answered_wait_and_go_together(world):
    coordinators = here(world)
    coordinators.gate.clear()
    others = [Producer(f"y{number}", PID + 1 + number, 0) for number in range(3)]
    asking = [asyncio.ensure_future(verify(coordinators, lone(), producer=each)) for each in (OURS, *others)]
    await asyncio.sleep(0.1)
    assert [producer for producer, _, _ in coordinators.asked_here] == [OURS]
    coordinators.answer_here()
    await asyncio.sleep(0.1)
    assert [each.done() for each in asking] == [True, False, False, False]
    assert [producer for producer, _, _ in coordinators.asked_here[1:]] == others
    for _ in others:
        coordinators.answer_here()
    assert all(len(guards) == 1 for guards in await asyncio.gather(*asking))
    coordinators.gate.set()
    await verify(coordinators, lone())
    assert len(coordinators.asked_here) == 5, "a coordinator that has answered all is idle again"


@played
async def test_an_answer_of_this_node_that_is_there_at_once_is_not_awaited(world):
    coordinators, leader = here(world), lone()
    verifying = coordinators.verifier.verifying(OURS, [batch_for(leader)], Protocol.OLD)
    with pytest.raises(StopIteration) as done:
        next(verifying)
    (guard,) = done.value.value
    append(leader, 0, guard=guard)
    assert len(coordinators.asked_here) == coordinators.verifier.verified == 1


@played
async def test_a_question_to_this_node_outlives_its_asker(world):
    coordinators = here(world)
    coordinators.gate.clear()
    asking = asyncio.ensure_future(verify(coordinators, lone()))
    await asyncio.sleep(0.1)
    asking.cancel()
    later = asyncio.ensure_future(verify(coordinators, lone(), producer=Producer("y", PID + 1, 0)))
    await asyncio.sleep(0.1)
    assert len(coordinators.asked_here) == 1
    coordinators.answer_here()
    await asyncio.sleep(0.1)
    coordinators.answer_here()
    assert len(await later) == 1


@played
async def test_questions_to_this_node_end_with_it(world):
    coordinators = here(world)
    coordinators.gate.clear()
    asking = [
        asyncio.ensure_future(verify(coordinators, lone(), producer=Producer(f"y{number}", PID + number, 0)))
        for number in range(2)
    ]
    await asyncio.sleep(0.1)
    await world.tasks.stop()
    with pytest.raises(asyncio.CancelledError):
        await asking[1]
    asking[0].cancel()
