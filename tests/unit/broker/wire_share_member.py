"""Members of share groups that talk to whole nodes over connections of their own."""

import asyncio

from esp.model.errors import ErrorCode
from esp.protocol.registry import ApiKey
from tests.unit.broker.guarded_node import ask
from tests.unit.broker.share_group_conversation import assigned

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)


async def until_assigned(client, count, *, member="m", group="g", topics=("t",)):
    """Join a group and send heartbeats until so many partitions are assigned; the member's epoch then."""
    epoch = 0
    while True:
        fields = {} if epoch else {"subscribed_topic_names": list(topics)}
        answer = await ask(
            client, ApiKey.SHARE_GROUP_HEARTBEAT, 1, group_id=group, member_id=member, member_epoch=epoch, **fields
        )
        if answer.error_code not in (ErrorCode.coordinator_load_in_progress, ErrorCode.not_coordinator):
            assert answer.error_code is ErrorCode.none, answer
            epoch = answer.member_epoch
        if assigned(answer) and sum(map(len, assigned(answer).values())) == count:
            return epoch
        await asyncio.sleep(0.1)


class WireMember:
    """A member with a session at one node.

    Args:
        client: its connection.
        topic_id: the topic that it reads.
        name: the id of the member.
    """

    def __init__(self, client, topic_id, name="m", *, group="g", version=2):
        self.client = client
        self.topic_id = topic_id
        self.name = name
        self.group = group
        self.version = version
        self.epoch = 0

    def _fields(self, words, partitions, batches_name="acknowledgement_batches"):
        numbers = dict.fromkeys([*partitions, *words])
        topics = [
            {
                "topic_id": self.topic_id,
                "partitions": [
                    {
                        "partition_index": number,
                        batches_name: [
                            {"first_offset": first, "last_offset": last, "acknowledge_types": types}
                            for first, last, *types in words.get(number, ())
                        ],
                    }
                    for number in numbers
                ],
            }
        ]
        epoch, self.epoch = self.epoch, self.epoch + 1
        return {
            "group_id": self.group,
            "member_id": self.name,
            "share_session_epoch": epoch,
            "topics": topics if numbers else [],
        }

    def fetch_later(self, *partitions, words=None, wait_ms=500, most=500, max_bytes=1 << 20, **more):
        """Send a ShareFetch; the session goes on with partitions that were named before."""
        return asyncio.ensure_future(
            ask(
                self.client,
                ApiKey.SHARE_FETCH,
                self.version,
                **self._fields(words or {}, partitions),
                max_wait=wait_ms,
                min_bytes=1,
                max_bytes=max_bytes,
                max_records=most,
                batch_size=most,
                **more,
            )
        )

    async def fetch(self, *partitions, **options):
        """The answer's partitions by number."""
        answer = await self.fetch_later(*partitions, **options)
        assert answer.error_code is ErrorCode.none, answer
        return {each.partition_index: each for topic in answer.responses for each in topic.partitions}

    async def take(self, *partitions, **options):
        """What was acquired: partition, first and last offset, delivery count."""
        return pieces(await self.fetch(*partitions, **options))

    async def say(self, words, **more):
        """Send a ShareAcknowledge; the errors by partition."""
        answer = await ask(self.client, ApiKey.SHARE_ACKNOWLEDGE, self.version, **self._fields(words, ()), **more)
        assert answer.error_code is ErrorCode.none, answer
        return {each.partition_index: each.error_code for topic in answer.responses for each in topic.partitions}

    async def leave(self):
        """End the session."""
        self.epoch = -1
        return await self.say({})


def pieces(answers):
    """What was acquired by the partitions of an answer."""
    for answer in answers.values():
        assert (answer.error_code, answer.acknowledge_error_code) == (0, 0), answer
    return [
        (number, piece.first_offset, piece.last_offset, piece.delivery_count)
        for number, answer in answers.items()
        for piece in answer.acquired_records
    ]
