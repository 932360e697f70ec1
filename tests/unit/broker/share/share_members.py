"""Members of share groups that talk to the handlers of one simulated node, and a share coordinator in memory."""

import asyncio
from datetime import timedelta

from kio.schema.share_acknowledge import v1 as acknowledge_1
from kio.schema.share_acknowledge import v2 as acknowledge_2
from kio.schema.share_acknowledge.v2 import request as acknowledging
from kio.schema.share_fetch import v1 as fetch_1
from kio.schema.share_fetch import v2 as fetch_2
from kio.schema.share_fetch.v2 import request as fetching
from kio.static.primitive import i8, i32, i32Timedelta, i64

from esp.broker.request import ClientContext, Request
from esp.broker.share.handlers import handle_share_acknowledge, handle_share_fetch
from esp.broker.share.leaders import ShareLeaders
from esp.broker.share.led_partition import Parts
from esp.broker.share.letter_writer import Parts as LetterParts
from esp.broker.share.log_reads import Searching
from esp.broker.turns.long_requests import done
from esp.model.errors import ApiError, ErrorCode
from esp.ports.network import Address
from esp.protocol.reader import compile_reader
from esp.protocol.registry import ApiKey
from esp.protocol.share_requests import ShareAcknowledgeRequest, ShareFetchRequest
from esp.protocol.writer import compile_writer
from esp.share.persister import PersistedRead
from tests.models.naive_share_partition import PersistedOffsets
from tests.unit.broker.guarded_node import ask

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)


def over_the_wire(message, wire, model):
    """A message as it arrives that was sent as one of class ``wire``, by peers that know the class ``model``."""
    parts = []
    compile_writer(wire, model)(parts.append, message)
    return compile_reader(wire, model)(b"".join(parts))


class MemoryPersister:
    """A share coordinator that has initialised every share partition."""

    def __init__(self):
        self.states = {}
        self.leader_epochs = {}
        self.writes = []
        self.failure = None
        """Set: the error of each call."""
        self.is_open = asyncio.Event()
        """Not set: writes wait."""
        self.is_open.set()

    def state(self, key):
        if key not in self.states:
            self.states[key] = PersistedOffsets()
            self.states[key].start = -1
        return self.states[key]

    async def read(self, key, leader_epoch):
        await asyncio.sleep(0.001)
        self._check(key, leader_epoch)
        state = self.state(key)
        return PersistedRead(7, state.start, state.batches())

    async def write(self, key, state_epoch, leader_epoch, write):
        await asyncio.sleep(0.001)
        await self.is_open.wait()
        self._check(key, leader_epoch)
        if state_epoch != 7:
            raise ApiError(ErrorCode.fenced_state_epoch)
        self.writes.append(write)
        self.state(key).write(write.start_offset, write.batches)

    def _check(self, key, leader_epoch):
        if self.failure is not None:
            raise ApiError(self.failure)
        if leader_epoch < self.leader_epochs.get(key, 0):
            raise ApiError(ErrorCode.fenced_leader_epoch)
        self.leader_epochs[key] = leader_epoch


def leaders_of(node, persister, post=None):
    """The share partitions of a node, as it will make them."""
    services = node.node.broker.dispatcher._services
    searching = Searching(services.env.clock, services.searching, services.searches)
    letters = LetterParts(post, node.node.broker.running.letters.counts)
    parts = Parts(persister, searching, node.node.broker.running._tasks, node.node.broker.dispatcher.turns, letters)
    return ShareLeaders(services.settings, services.metadata, services.replicas, services.access, parts)


class Member:
    """A member with its session on one connection."""

    def __init__(self, leaders, name="m", group="g", principal="User:ANONYMOUS", version=2):
        self.leaders = leaders
        self.name = name
        self.group = group
        self.epoch = 0
        self.version = version
        self.context = ClientContext("PLAINTEXT", Address("127.0.0.1", 1), principal)
        self.pending = []

    def _request(self, key):
        request = Request(key, self.version, 0, "client", self.context, lambda _at_once: None)
        self.pending.append(request)
        return request

    def fetch_later(
        self,
        *partitions,
        words=None,
        epoch=None,
        wait_ms=500,
        min_bytes=1,
        max_bytes=1 << 20,
        most=500,
        batch_size=500,
        mode=0,
        renews=False,
        forget=(),
    ):
        """Send a ShareFetch; partitions are pairs of topic id and number, words a list of them by partition."""
        words = words or {}
        message = fetching.ShareFetchRequest(
            group_id=self.group,
            member_id=self.name,
            share_session_epoch=i32(self.epoch if epoch is None else epoch),
            max_wait=i32Timedelta.parse(timedelta(milliseconds=wait_ms)),
            min_bytes=i32(min_bytes),
            max_bytes=i32(max_bytes),
            max_records=i32(most),
            batch_size=i32(batch_size),
            share_acquire_mode=i8(mode),
            is_renew_ack=renews,
            topics=tuple(
                fetching.FetchTopic(
                    topic_id=topic_id,
                    partitions=(
                        fetching.FetchPartition(
                            partition_index=i32(number),
                            acknowledgement_batches=_batches(fetching, words.get((topic_id, number), ())),
                        ),
                    ),
                )
                for topic_id, number in dict.fromkeys([*partitions, *words])
            ),
            forgotten_topics_data=tuple(
                fetching.ForgottenTopic(topic_id=topic_id, partitions=(i32(number),)) for topic_id, number in forget
            ),
        )
        if epoch is None:
            self.epoch += 1
        wire = fetch_1 if self.version == 1 else fetch_2
        arrived = over_the_wire(message, wire.ShareFetchRequest, ShareFetchRequest)
        answer = handle_share_fetch(self.leaders, self._request(78), arrived)
        return _answered(answer, wire.ShareFetchResponse, fetch_2.ShareFetchResponse)

    async def fetch(self, *partitions, **options):
        """The answer's partitions, by topic id and number."""
        return by_partition(await self.fetch_later(*partitions, **options))

    async def take(self, *partitions, **options):
        """The acquired records of all partitions: first and last offset, delivery count."""
        answers = await self.fetch(*partitions, **options)
        assert not any(answer.error_code or answer.acknowledge_error_code for answer in answers.values()), answers
        return [triple(piece) for answer in answers.values() for piece in answer.acquired_records]

    def say_later(self, words, *, epoch=None, renews=False):
        """Send a ShareAcknowledge."""
        message = acknowledging.ShareAcknowledgeRequest(
            group_id=self.group,
            member_id=self.name,
            share_session_epoch=i32(self.epoch if epoch is None else epoch),
            is_renew_ack=renews,
            topics=tuple(
                acknowledging.AcknowledgeTopic(
                    topic_id=topic_id,
                    partitions=(
                        acknowledging.AcknowledgePartition(
                            partition_index=i32(number), acknowledgement_batches=_batches(acknowledging, batches)
                        ),
                    ),
                )
                for (topic_id, number), batches in words.items()
            ),
        )
        if epoch is None:
            self.epoch += 1
        wire = acknowledge_1 if self.version == 1 else acknowledge_2
        arrived = over_the_wire(message, wire.ShareAcknowledgeRequest, ShareAcknowledgeRequest)
        answer = handle_share_acknowledge(self.leaders, self._request(79), arrived)
        return _answered(answer, wire.ShareAcknowledgeResponse, acknowledge_2.ShareAcknowledgeResponse)

    async def say(self, words, **options):
        """The codes of the answer's partitions, by topic id and number."""
        answer = await self.say_later(words, **options)
        return {key: each.error_code for key, each in by_partition(answer).items()}

    def cut(self):
        """The connection ends: requests are abandoned, then what is to be called at the end is called."""
        for request in self.pending:
            request.abandon()
        for call in self.context.at_end:
            call()


def by_partition(answer):
    assert answer.error_code is ErrorCode.none, answer
    return {(topic.topic_id, each.partition_index): each for topic in answer.responses for each in topic.partitions}


def triple(piece):
    return piece.first_offset, piece.last_offset, piece.delivery_count


def _answered(answer, wire, model):
    async def travel():
        return over_the_wire(done(await answer), wire, model)

    return asyncio.ensure_future(travel())


def _batches(messages, batches):
    return tuple(
        messages.AcknowledgementBatch(
            first_offset=i64(first), last_offset=i64(last), acknowledge_types=tuple(i8(type_) for type_ in types)
        )
        for first, last, *types in batches
    )


async def set_group(client, group="g", **configs):
    """Give a group settings; dots are underscores."""
    answer = await ask(
        client,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        1,
        resources=[
            {
                "resource_type": 32,
                "resource_name": group,
                "configs": [
                    {"name": f"share.{name.replace('_', '.')}", "config_operation": 0, "value": str(value)}
                    for name, value in configs.items()
                ],
            }
        ],
    )
    assert not answer.responses[0].error_code, answer
