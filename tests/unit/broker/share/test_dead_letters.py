"""Dead letters of share partitions on a simulated node: they are written before their records are archived, or it is told why not."""

import asyncio
import logging

import pytest

from esp.broker.metrics.families import _collect_letters
from esp.broker.share.letter_post import LetterPost
from esp.broker.share.letter_writer import _find_records
from esp.broker.share.log_reads import ReadBatches
from esp.model.acl import AclOperation, ResourceType
from esp.model.errors import ErrorCode
from esp.model.features import SHARE_VERSION
from esp.protocol.registry import ApiKey
from esp.records.batch import iterate_records
from esp.records.builder import NewRecord, build_batch
from esp.schemas.share_state_records import RecordState
from esp.share.acquiring import FetchedBatch
from esp.share.dead_letters import HEADER_PREFIX
from esp.share.partition import CondemnedRecords
from tests.unit.broker.conversation import create_topic, fetch, produce
from tests.unit.broker.guarded_node import ROOT, allow, ask, client_of, guarded
from tests.unit.broker.share.share_members import Member, MemoryPersister, leaders_of
from tests.unit.broker.share_groups import with_share_groups
from tests.unit.broker.simulated_node import records

ACCEPT, RELEASE, REJECT = 1, 2, 3
QUEUE = "dlq.t"
GROUP_RESOURCE, BROKER_RESOURCE = 32, 4


async def configure(client, resource_type, name, **configs):
    """Give a resource settings; dots are underscores."""
    settings = [
        {"name": key.replace("_", "."), "config_operation": 0, "value": str(value)} for key, value in configs.items()
    ]
    resource = {"resource_type": resource_type, "resource_name": name, "configs": settings}
    answer = await ask(client, ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource])
    assert not answer.responses[0].error_code, answer


def has_queue(client, topic=QUEUE, *, copies=False, **configs):
    """Give the group a dead-letter queue, and let it begin at the start of its topics."""
    return configure(
        client,
        GROUP_RESOURCE,
        "g",
        share_auto_offset_reset="earliest",
        errors_deadletterqueue_topic_name=topic,
        errors_deadletterqueue_copy_record_enable=str(copies).lower(),
        **configs,
    )


def post_of(node):
    running = node.node.broker.running
    return LetterPost(
        running._cache,
        running.letters.peers,
        lambda: running.replicas.settings.current,
        running._create_dead_letter_topic,
    )


class Post:
    """A dead-letter queue that answers as it is told, and then takes all."""

    def __init__(self, real, *codes):
        self.real = real
        self.settings, self.destination, self.create_topic = real.settings, real.destination, real.create_topic
        self.codes = list(codes)
        self.sent = []

    async def send(self, _topic, _partition, batch):
        letters = [record.key for record in iterate_records(batch)]
        code = self.codes.pop(0) if self.codes else ErrorCode.none
        self.sent.append((letters, code))
        return code


async def letters_in(client, partition=0, topic=QUEUE):
    told = await fetch(client, topic, partition=partition)
    batch, found = memoryview(told.records or b""), []
    while batch:
        (size,) = (int.from_bytes(batch[8:12], "big") + 12,)
        found += iterate_records(batch)
        batch = batch[size:]
    return found


async def until(condition):
    while not condition():  # noqa: ASYNC110 - tasks of the node change it
        await asyncio.sleep(0.05)


def counts_of(node):
    counts = node.node.broker.running.letters.counts
    return counts.written["g"], counts.lost["g"], counts.absent["g"]


async def rejecting(client, node, post=None, *, count=3, persister=None, principal="User:ANONYMOUS"):
    """A member that has rejected the first records of a topic, and the share partition."""
    topic_id = await create_topic(client)
    batch = build_batch([NewRecord(b"value-%d" % n, b"key-%d" % n, (("h", b"%d" % n),), 5) for n in range(count)])
    await produce(client, "t", batch)
    leaders = leaders_of(node, persister or MemoryPersister(), post or post_of(node))
    member = Member(leaders, principal=principal)
    assert await member.take((topic_id, 0), wait_ms=2_000) == [(0, count - 1, 1)]
    assert await member.say({(topic_id, 0): [(0, count - 1, REJECT)]}) == {(topic_id, 0): ErrorCode.none}
    (share,) = leaders._groups["g"].values()
    return member, share


@with_share_groups(2)
async def test_a_rejected_record_is_archived_once_its_letter_is_committed(scene):
    node, client = scene
    await create_topic(client, QUEUE, partitions=2, errors_deadletterqueue_group_enable="true")
    await has_queue(client)
    _member, share = await rejecting(client, node)
    assert share.core.condemned_count == 3
    assert not share.is_idle(1 << 62)
    await until(lambda: share.core.start_offset == 3)
    found = await letters_in(client)
    assert [(letter.key, letter.value) for letter in found] == [(None, None)] * 3
    assert [dict(letter.headers) for letter in found] == [
        {
            "__dlq.errors.topic": b"t",
            "__dlq.errors.partition": b"0",
            "__dlq.errors.offset": b"%d" % offset,
            "__dlq.errors.group": b"g",
            "__dlq.errors.delivery.count": b"1",
            "__dlq.errors.message": b"Offset rejected by client.",
        }
        for offset in range(3)
    ]
    assert counts_of(node) == (3, 0, 0)
    counts = node.node.broker.running.letters.counts
    assert not counts.pending
    (written, requests) = _collect_letters(counts)
    assert [(sample.name, sample.labels, sample.value) for sample in (*written.samples, *requests.samples)] == [
        ("esp_share_dead_letters_total", {"group": "g"}, 3),
        ("esp_share_dead_letter_requests_total", {"group": "g"}, 1),
    ]


@with_share_groups(2)
async def test_a_letter_may_have_all_of_its_record(scene):
    node, client = scene
    await create_topic(client, QUEUE, errors_deadletterqueue_group_enable="true")
    await has_queue(client, copies=True)
    _member, share = await rejecting(client, node)
    await until(lambda: share.core.start_offset == 3)
    found = await letters_in(client)
    assert [(letter.key, letter.value, letter.headers[0]) for letter in found] == [
        (b"key-%d" % n, b"value-%d" % n, ("h", b"%d" % n)) for n in range(3)
    ]
    assert all(letter.timestamp > 5 for letter in found), "the queue's retention counts from the letter on"


@with_share_groups(2)
async def test_a_record_whose_locks_end_too_often_gets_a_letter(scene):
    node, client = scene
    await create_topic(client, QUEUE, errors_deadletterqueue_group_enable="true")
    await has_queue(client, share_delivery_count_limit=2, share_record_lock_duration_ms=15_000)
    topic_id = await create_topic(client)
    await produce(client, "t", records(b"poison"))
    leaders = leaders_of(node, MemoryPersister(), post_of(node))
    member = Member(leaders)
    assert await member.take((topic_id, 0), wait_ms=2_000) == [(0, 0, 1)]
    assert await member.take((topic_id, 0), wait_ms=60_000) == [(0, 0, 2)]
    await until(lambda: counts_of(node)[0])
    (letter,) = await letters_in(client)
    assert dict(letter.headers)["__dlq.errors.message"] == b"Offset delivery count exceeded the threshold."
    assert dict(letter.headers)["__dlq.errors.delivery.count"] == b"2"


@with_share_groups(1)
async def test_before_level_2_of_share_version_there_are_no_letters(scene):
    node, client = scene
    await create_topic(client, QUEUE, errors_deadletterqueue_group_enable="true")
    await has_queue(client)
    _member, share = await rejecting(client, node)
    assert (share.core.start_offset, share.core.condemned_count) == (3, 0)
    assert await letters_in(client) == []


@pytest.mark.parametrize("way", ["missing", "not enabled", "other name", "own topic"])
def test_where_no_letter_can_be_written_the_record_is_archived_and_an_error_logged(way, caplog):
    @with_share_groups(2)
    async def scenario(scene):
        node, client = scene
        if way == "not enabled":
            await create_topic(client, QUEUE)
        if way == "other name":
            await create_topic(client, "payments", errors_deadletterqueue_group_enable="true")
        await has_queue(client, {"other name": "payments", "own topic": "t"}.get(way, QUEUE))
        _member, share = await rejecting(client, node)
        await until(lambda: share.core.start_offset == 3)
        assert counts_of(node) == (0, 3, 0)

    with caplog.at_level(logging.ERROR):
        scenario()
    (message,) = [record.getMessage() for record in caplog.records if "dead letters" in record.getMessage()]
    assert message.startswith("records of t-0 of group g are archived without dead letters: ")


@with_share_groups(2)
async def test_a_queue_is_created_where_that_is_wanted(scene):
    node, client = scene
    await configure(client, BROKER_RESOURCE, "", errors_deadletterqueue_auto_create_topics_enable="true")
    await has_queue(client)
    _member, share = await rejecting(client, node)
    await until(lambda: share.core.start_offset == 3)
    assert counts_of(node) == (3, 0, 0)
    configs = node.metadata.image.topics_by_name[QUEUE].configs
    assert configs["errors.deadletterqueue.group.enable"] == "true"


def posted(*codes, copies=True, count=3):
    """A test with a queue that answers so."""

    def decorate(scenario):
        @with_share_groups(2)
        async def test(scene):
            node, client = scene
            await create_topic(client, QUEUE, errors_deadletterqueue_group_enable="true")
            await has_queue(client, copies=copies)
            post = Post(post_of(node), *codes)
            _member, share = await rejecting(client, node, post, count=count)
            await until(lambda: share.core.start_offset == count)
            await scenario(node, post)

        return test

    return decorate


ALL = [b"key-0", b"key-1", b"key-2"]


@posted(ErrorCode.not_leader_or_follower, ErrorCode.topic_authorization_failed, ErrorCode.not_enough_replicas)
async def test_what_may_pass_is_tried_again(node, post):
    assert [letters for letters, _code in post.sent] == [ALL] * 4
    assert counts_of(node) == (3, 0, 0)
    assert node.node.broker.running.letters.counts.failures["g"] == 3


@posted(ErrorCode.message_too_large, ErrorCode.message_too_large)
async def test_letters_that_are_too_large_together_are_sent_apart_and_at_last_without_their_record(node, post):
    assert [letters for letters, _code in post.sent] == [ALL, ALL[:1], [None], ALL[1:2], ALL[2:]]
    assert counts_of(node) == (3, 0, 0)


@posted(ErrorCode.message_too_large, ErrorCode.none, ErrorCode.message_too_large, copies=False, count=2)
async def test_a_letter_that_is_too_large_in_itself_is_lost(node, post):
    assert [len(letters) for letters, _code in post.sent] == [2, 1, 1]
    assert counts_of(node) == (1, 1, 0)


@posted(ErrorCode.invalid_record, ErrorCode.none, ErrorCode.invalid_record)
async def test_a_letter_that_is_refused_takes_no_others_with_it(node, post):
    assert [letters for letters, _code in post.sent] == [ALL, ALL[:1], ALL[1:2], ALL[2:]]
    assert counts_of(node) == (2, 1, 0)


@with_share_groups(2)
async def test_members_get_other_records_while_letters_wait(scene):
    node, client = scene
    await create_topic(client, QUEUE, errors_deadletterqueue_group_enable="true")
    await has_queue(client)
    post = Post(post_of(node), *[ErrorCode.leader_not_available] * 5)
    member, share = await rejecting(client, node, post)
    await produce(client, "t", records(b"next"))
    assert await member.take(wait_ms=500) == [(3, 3, 1)]
    assert share.core.condemned_count == 3
    assert node.node.broker.running.letters.counts.pending_of_groups() == {"g": 3}
    await until(lambda: share.letters_failing_us)
    await until(lambda: not share.core.condemned_count)
    assert share.letters_failing_us == 0
    assert share.core.start_offset == 3


@guarded()
async def test_letters_wait_until_the_node_may_write_to_the_queue(node):
    """Its principal is that of any client of this listener, which has neither log-in nor certificates."""
    root = await client_of(node, ROOT)
    await set_level_of(root, 2)
    await create_topic(root, QUEUE, errors_deadletterqueue_group_enable="true")
    await has_queue(root)
    _member, share = await rejecting(root, node, principal=ROOT)
    await until(lambda: share.letters_failing_us)
    assert counts_of(node) == (0, 0, 0)
    await allow(root, "User:ANONYMOUS", AclOperation.WRITE, ResourceType.TOPIC, QUEUE)
    await until(lambda: share.core.start_offset == 3)
    assert counts_of(node) == (3, 0, 0)


async def set_level_of(root, level):
    update = {"feature": SHARE_VERSION, "max_version_level": level, "upgrade_type": 1}
    answer = await ask(root, ApiKey.UPDATE_FEATURES, 2, feature_updates=[update], timeout=1000)
    assert not answer.error_code, answer


@with_share_groups(2)
async def test_letters_wait_no_longer_where_the_group_has_no_queue_any_more(scene):
    node, client = scene
    await create_topic(client, QUEUE, errors_deadletterqueue_group_enable="true")
    await has_queue(client)
    post = Post(post_of(node), *[ErrorCode.leader_not_available] * 3)
    _member, share = await rejecting(client, node, post)
    await until(lambda: share.letters_failing_us)
    await has_queue(client, "")
    await until(lambda: share.core.start_offset == 3)
    assert counts_of(node) == (0, 3, 0)
    assert share.letters_failing_us == 0
    assert not node.node.broker.running.letters.counts.pending


@with_share_groups(2)
async def test_records_that_are_deleted_before_their_letters_are_written_are_counted(scene):
    node, client = scene
    await create_topic(client, QUEUE, errors_deadletterqueue_group_enable="true")
    await has_queue(client)
    post = Post(post_of(node), *[ErrorCode.leader_not_available] * 3)
    _member, share = await rejecting(client, node, post)
    topics = [{"name": "t", "partitions": [{"partition_index": 0, "offset": 2}]}]
    await ask(client, ApiKey.DELETE_RECORDS, 2, topics=topics, timeout=1000)
    await until(lambda: share.core.start_offset == 3)
    assert counts_of(node) == (1, 0, 2)


@with_share_groups(2)
async def test_the_next_leader_writes_a_letter_again_whose_record_was_not_archived(scene):
    node, client = scene
    await create_topic(client, QUEUE, errors_deadletterqueue_group_enable="true")
    await has_queue(client)
    persister = MemoryPersister()
    member, share = await rejecting(client, node, persister=persister)
    await until(lambda: share.core.condemned_count == 0 and not share.core.has_writes)
    (key,) = persister.states
    state = persister.state(key)
    state.start, state.states = 0, {0: (1, RecordState.ARCHIVING), 1: (1, RecordState.ARCHIVED)}
    share.end(ErrorCode.none)
    assert await member.take(wait_ms=500) == [(2, 2, 1)]
    (share,) = member.leaders._groups["g"].values()
    await until(lambda: share.core.start_offset == 2)
    offsets = [dict(letter.headers)["__dlq.errors.offset"] for letter in await letters_in(client)]
    assert offsets == [b"0", b"1", b"2", b"0"]


def read_of(*batches):
    """Batches as they were read: pairs of base offset and number of records."""
    built = [
        build_batch([NewRecord(b"%d" % (base + n)) for n in range(count)], base_offset=base) for base, count in batches
    ]
    positions = [sum(map(len, built[:place])) for place in range(len(built))]
    fetched = tuple(FetchedBatch(base, base + count) for base, count in batches)
    return ReadBatches(batches[0][0], memoryview(b"".join(built)), fetched, tuple(positions))


@pytest.mark.parametrize(
    ("batches", "condemned", "end_offset", "expected"),
    [
        ([(0, 3), (5, 2)], [(0, 7)], 7, ([0, 1, 2, 5, 6], 7)),
        ([(0, 3), (5, 2)], [(1, 2), (4, 6)], 6, ([1, 5], 6)),
        ([(0, 10)], [(2, 3), (7, 9)], 9, ([2, 7, 8], 9)),
        ([(0, 3)], [(1, 2), (8, 9)], 9, ([1], 3)),
        ([(5, 2)], [(1, 3)], 3, ([], 3)),
    ],
)
def test_the_records_of_ranges_are_found_and_gaps_are_passed(batches, condemned, end_offset, expected):
    found, end = _find_records(read_of(*batches), [CondemnedRecords(*each, 1, False) for each in condemned], end_offset)
    assert ([record.offset for record in found], end) == expected


def test_headers_of_a_letter_begin_alike():
    assert HEADER_PREFIX == "__dlq.errors."
