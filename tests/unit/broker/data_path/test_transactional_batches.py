"""Transactional produce requests on a cluster of replicas, with coordinators that the test plays."""

import asyncio

import pytest

from esp.broker.connections.peer import PeerUnavailableError
from esp.model.errors import ErrorCode
from esp.model.ids import NodeId
from esp.ports.network import Address
from esp.protocol.progress import AT_ONCE_ELEMENTS
from esp.protocol.registry import ApiKey
from tests.unit.broker.conversation import of_one_partition, produce, produce_later, produce_request
from tests.unit.broker.replica_cluster import clustered
from tests.unit.broker.simulated_node import RefusedError, records
from tests.unit.broker.transactional_client import batch, produce_in, serve_transactions, write_markers

PRODUCER_EPOCH_OFFSET = 51


async def begin(cluster, **options):
    serve_transactions(cluster, **options)
    await cluster.applied()
    return await cluster[1].client()


@pytest.mark.parametrize("acks", [-1, 1])
@clustered()
async def test_a_transaction_is_verified_with_its_first_batch_only(cluster, acks):
    client = await begin(cluster)
    for sequence in range(3):
        assert await produce_in(client, sequence, acks=acks) == (ErrorCode.none, sequence)
    assert len(cluster.coordinators.asked) == 1
    assert await write_markers(client, ("t", 0), epoch=1, transaction_version=2) == [ErrorCode.none]
    assert await produce_in(client, 0, epoch=1) == (ErrorCode.none, 4)
    assert len(cluster.coordinators.asked) == 2


@pytest.mark.parametrize(("version", "adds"), [(10, False), (11, False), (12, True)])
@clustered()
async def test_the_version_of_the_request_says_if_the_partition_is_added(cluster, version, adds):
    client = await begin(cluster)
    await produce_in(client, version=version)
    ((_, request),) = cluster.coordinators.asked
    assert request.transactions[0].verify_only is not adds


@pytest.mark.parametrize(
    ("version", "code"), [(10, ErrorCode.invalid_txn_state), (11, ErrorCode.transaction_abortable)]
)
@clustered()
async def test_a_partition_that_was_not_added_is_refused(cluster, version, code):
    client = await begin(cluster)
    cluster.coordinators.say(ErrorCode.transaction_abortable)
    assert await produce_in(client, version=version) == (code, -1)
    assert cluster[1].log().log_end_offset == 0


@clustered()
async def test_batches_of_one_connection_stay_in_order_while_the_first_is_verified(cluster):
    client = await begin(cluster)
    cluster.coordinators.gate.clear()
    sent = [
        produce_later(client, "t", batch(sequence, b"%d" % sequence), transactional_id="x") for sequence in range(5)
    ]
    other = await cluster[1].client()
    assert (await produce(other, "t", records(b"other"), partition=0)).base_offset == 0
    cluster.coordinators.gate.set()
    offsets = [of_one_partition(await one).base_offset for one in sent]
    assert offsets == [1, 2, 3, 4, 5]
    assert len(cluster.coordinators.asked) == 1


@clustered()
async def test_sequence_1_on_another_connection_does_not_overtake_sequence_0(cluster):
    client, other = await begin(cluster), await cluster[1].client()
    cluster.coordinators.gate.clear()
    first = asyncio.ensure_future(produce_in(client, 0, version=11))
    await asyncio.sleep(0.01)
    cluster.coordinators.gate.set()
    # verified and appended in one turn each; the log would take any first sequence of a producer that it does not know
    leader = cluster[1].hosted().leader
    assert leader.begin_verification(7, 0, 1, starts_at_zero=False)
    assert await produce_in(other, 1, version=11) in (
        (ErrorCode.none, 1),
        (ErrorCode.out_of_order_sequence_number, -1),
    )
    assert await first == (ErrorCode.none, 0)


@clustered()
async def test_a_leader_that_is_replaced_during_the_question_sends_the_producer_away(cluster):
    client = await begin(cluster)
    cluster.coordinators.gate.clear()
    asked = asyncio.ensure_future(produce_in(client))
    await asyncio.sleep(0.01)
    cluster.controller.change(leader=NodeId(2))
    await cluster.applied()
    cluster.controller.change(leader=NodeId(1))
    await cluster.applied()
    cluster.coordinators.gate.set()
    assert await asked == (ErrorCode.not_leader_or_follower, -1)
    assert cluster[1].log().log_end_offset == 0
    assert await produce_in(client) == (ErrorCode.none, 0)


@clustered()
async def test_a_lost_answer_is_repeated_by_the_producer_and_appended_once(cluster):
    client = await begin(cluster)
    cluster.coordinators.fails = PeerUnavailableError(Address("h", 1), "gone")
    sent = [produce_later(client, "t", batch(sequence), transactional_id="x") for sequence in range(2)]
    again = ErrorCode.not_enough_replicas
    assert [of_one_partition(await one).error_code for one in sent] == [again, again]
    cluster.coordinators.fails = None
    for sequence in range(2):
        assert await produce_in(client, sequence) == (ErrorCode.none, sequence)


@clustered()
async def test_the_next_epoch_may_write_as_soon_as_the_markers_are_there(cluster):
    """KAFKA-18575."""
    client, coordinator = await begin(cluster), await cluster[1].client()
    assert await produce_in(client) == (ErrorCode.none, 0)
    cluster.coordinators.say(ErrorCode.concurrent_transactions)
    asked = asyncio.ensure_future(produce_in(client, epoch=1))
    await asyncio.sleep(0.03)
    await write_markers(coordinator, ("t", 0), epoch=1, transaction_version=2)
    cluster.coordinators.say(ErrorCode.none)
    assert await asked == (ErrorCode.none, 2)


@clustered()
async def test_all_partitions_of_a_request_are_asked_about_at_once(cluster):
    client = await begin(cluster)
    cluster.coordinators.say(ErrorCode.transaction_abortable, partition=1)
    parts = [("t", 0, batch()), ("t", 1, batch()), ("u", 0, batch()), ("t", 0, batch(1)), ("t", 1, b"junk")]
    request = produce_request(parts, transactional_id="x", version=11)
    answer = await client.call(ApiKey.PRODUCE, 11, request)
    codes = [part.error_code for topic in answer.responses for part in topic.partition_responses]
    assert codes == [
        ErrorCode.none,
        ErrorCode.transaction_abortable,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.none,
        ErrorCode.invalid_record,
    ]
    ((_, asked),) = cluster.coordinators.asked
    assert [(topic.name, topic.partitions) for topic in asked.transactions[0].topics] == [("t", (0, 1))]


@clustered()
async def test_batches_of_two_producers_in_one_request_are_refused(cluster):
    client = await begin(cluster)
    code = ErrorCode.invalid_producer_id_mapping
    for other in ({"producer_id": 8}, {"epoch": 3}):
        parts = [("t", 0, batch()), ("t", 1, batch(**other))]
        answer = await client.call(ApiKey.PRODUCE, 12, produce_request(parts, transactional_id="x"))
        assert {part.error_code for topic in answer.responses for part in topic.partition_responses} == {code}
    assert cluster.coordinators.asked == []


@pytest.mark.parametrize("version", [10, 11, 12])
@clustered()
async def test_no_coordinator_is_asked_about_a_corrupt_batch_and_what_is_behind_it_waits(cluster, version):
    client = await begin(cluster)
    spoilt = batch(0)
    spoilt[PRODUCER_EPOCH_OFFSET] ^= 1
    cluster.coordinators.say(ErrorCode.producer_fenced)
    answer = await produce(client, "t", spoilt, version=version, transactional_id="x")
    assert (answer.error_code, cluster.coordinators.asked) == (ErrorCode.corrupt_message, [])
    cluster.coordinators.say(ErrorCode.none)
    assert await produce_in(client, 1, version=version) == (ErrorCode.not_leader_or_follower, -1)
    for sequence in range(2):
        assert await produce_in(client, sequence, version=version) == (ErrorCode.none, sequence)


@clustered()
async def test_a_corrupt_batch_is_refused_alone(cluster):
    client = await begin(cluster)
    spoilt = batch()
    spoilt[PRODUCER_EPOCH_OFFSET] ^= 1
    parts = [("t", 0, spoilt), ("t", 1, batch())]
    answer = await client.call(ApiKey.PRODUCE, 12, produce_request(parts, transactional_id="x"))
    codes = [part.error_code for topic in answer.responses for part in topic.partition_responses]
    assert codes == [ErrorCode.corrupt_message, ErrorCode.none]


@pytest.mark.parametrize(
    ("version", "code"),
    [(11, ErrorCode.not_enough_replicas), (12, ErrorCode.concurrent_transactions)],
)
@clustered()
async def test_a_producer_is_told_that_its_last_transaction_is_being_ended(cluster, version, code):
    client = await begin(cluster)
    cluster.coordinators.say(ErrorCode.concurrent_transactions)
    assert await produce_in(client, version=version) == (code, -1)


@pytest.mark.parametrize("said", [ErrorCode.not_coordinator, ErrorCode.coordinator_load_in_progress])
@pytest.mark.parametrize("version", [10, 12])
@clustered()
async def test_a_producer_comes_again_if_its_coordinator_says_nothing(cluster, version, said):
    client = await begin(cluster)
    cluster.coordinators.say(said)
    assert await produce_in(client, version=version) == (ErrorCode.not_enough_replicas, -1)


@clustered()
async def test_a_transactional_batch_without_a_producer_is_in_no_transaction(cluster):
    client = await begin(cluster)
    nameless = records(b"v", transactional=True)
    assert (await produce(client, "t", nameless, transactional_id="x")).error_code is ErrorCode.none
    assert cluster.coordinators.asked == []
    parts = [("t", 0, nameless), ("t", 1, batch())]
    answer = await client.call(ApiKey.PRODUCE, 12, produce_request(parts, transactional_id="x"))
    assert {part.error_code for topic in answer.responses for part in topic.partition_responses} == {ErrorCode.none}
    log = cluster[1].log()
    assert (log.log_end_offset, log.last_stable_offset) == (2, 2)


@clustered()
async def test_a_plain_batch_of_a_transactional_request_is_not_verified(cluster):
    client = await begin(cluster)
    plain = batch(0, transactional=False)
    assert (await produce(client, "t", plain, transactional_id="x")).error_code is ErrorCode.none
    assert cluster.coordinators.asked == []


@clustered()
async def test_a_transactional_batch_without_a_transactional_id_is_refused(cluster):
    client = await begin(cluster)
    for _ in range(3):  # also by the way of repeated requests
        answer = await produce(client, "t", batch())
        assert answer.error_code is ErrorCode.transactional_id_authorization_failed
        assert (await produce(client, "t", records(b"plain"))).error_code is ErrorCode.none


@clustered()
async def test_a_transactional_request_is_never_answered_by_the_way_of_repetitions(cluster):
    client = await begin(cluster)
    for sequence in range(3):
        assert (await produce_in(client, sequence, acks=1))[0] is ErrorCode.none
    assert await write_markers(client, ("t", 0)) == [ErrorCode.none]
    cluster.coordinators.say(ErrorCode.transaction_abortable)
    assert (await produce_in(client, 3, acks=1, version=12))[0] is ErrorCode.transaction_abortable


@clustered()
async def test_a_batch_that_is_also_recompressed_is_verified_once(cluster):
    client = await begin(cluster)
    cluster.controller.create("z", compression_type="zstd")
    await cluster.applied()
    answer = await produce(client, "z", batch(0, b"a" * 50, codec=1), transactional_id="x")
    assert (answer.error_code, answer.base_offset) == (ErrorCode.none, 0)
    assert len(cluster.coordinators.asked) == 1
    answer = await produce(client, "z", batch(1, b"a" * 50, codec=1), transactional_id="x")
    assert (answer.error_code, answer.base_offset) == (ErrorCode.none, 1)


@clustered()
async def test_a_request_for_very_many_partitions_is_verified_too(cluster):
    client = await begin(cluster)
    many = AT_ONCE_ELEMENTS + 20
    cluster.controller.create("m", partitions=many, leader=1)
    await cluster.applied()
    parts = [("m", number, batch()) for number in range(many)]
    answer = await client.call(ApiKey.PRODUCE, 12, produce_request(parts, transactional_id="x"))
    assert {part.error_code for topic in answer.responses for part in topic.partition_responses} == {ErrorCode.none}
    ((_, asked),) = cluster.coordinators.asked
    assert len(asked.transactions[0].topics[0].partitions) == many


@clustered()
async def test_a_refused_request_without_an_answer_ends_the_connection(cluster):
    client = await begin(cluster)
    cluster.coordinators.say(ErrorCode.transaction_abortable)
    sent = client.send(ApiKey.PRODUCE, 12, produce_request([("t", 0, batch())], transactional_id="x", acks=0))
    with pytest.raises(RefusedError):
        await sent


@clustered()
async def test_nothing_is_served_at_level_0(cluster):
    client = await begin(cluster, level=0)
    assert await produce_in(client) == (ErrorCode.transactional_id_authorization_failed, -1)
    assert cluster.coordinators.asked == []
