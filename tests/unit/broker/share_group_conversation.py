"""What tests of share groups ask of the handlers of a node, in one line each. Messages are encoded and decoded on both ways."""

import importlib
import inspect
from types import SimpleNamespace

from esp.broker.request import ClientContext, Request
from esp.ports.network import Address
from esp.protocol.reader import compile_reader
from esp.protocol.writer import compile_writer
from tests.unit.broker.conversation import create_topic
from tests.unit.broker.group_conversation import until_coordinated
from tests.unit.broker.groups.memory_states import MemoryStates

SETTINGS = {"offsets_topic_num_partitions": 1, "group_share_assignment_interval_ms": 0}
"""The settings of nodes whose share groups assign partitions as soon as these are initialised."""

ANONYMOUS = "User:ANONYMOUS"
NEWEST = {
    "share_group_heartbeat": 1,
    "share_group_describe": 1,
    "describe_share_group_offsets": 1,
    "alter_share_group_offsets": 0,
    "delete_share_group_offsets": 0,
}


def types(api, version, kind="request"):
    """kio's classes of an API's version."""
    return importlib.import_module(f"kio.schema.{api}.v{version}.{kind}")


def _class(api, version, kind):
    stem = "".join(word.capitalize() for word in api.split("_"))
    return getattr(types(api, version, kind), stem + kind.capitalize())


def _carried(message, sent, received):
    """A message as it arrives, that was made of one class and is read as another."""
    parts = []
    compile_writer(*sent)(parts.append, message)
    return compile_reader(*received)(b"".join(parts))


class ShareClient:
    """A client of the handlers of one broker."""

    def __init__(self, services, principal=ANONYMOUS):
        self.services = services
        self.context = ClientContext("PLAINTEXT", Address("127.0.0.1", 1), principal)

    async def call(self, api, version=None, **fields):
        newest = NEWEST[api]
        version = newest if version is None else version
        wire, model = (_class(api, number, "request") for number in (version, newest))
        request = Request(0, version, 0, "client", self.context, lambda _at_once: None)
        handler = importlib.import_module(f"esp.broker.apis.{api}").handle
        answer = handler(self.services, request, _carried(wire(**fields), (wire, wire), (wire, model)))
        if inspect.isawaitable(answer):
            answer = await answer
        wire, model = (_class(api, number, "response") for number in (version, newest))
        return _carried(answer, (wire, model), (wire, wire))

    async def beat(self, member="m", epoch=0, *, group="g", topics=None, rack=None):
        topics = ("t",) if topics is None and epoch == 0 else topics
        return await self.call(
            "share_group_heartbeat",
            group_id=group,
            member_id=member,
            member_epoch=epoch,
            rack_id=rack,
            subscribed_topic_names=topics,
        )

    async def describe(self, *groups, with_operations=False):
        answer = await self.call(
            "share_group_describe", group_ids=groups, include_authorized_operations=with_operations
        )
        return answer.groups

    async def offsets(self, partitions=None, *, group="g", version=1):
        """The group of the answer; ``partitions`` by topic, None for all."""
        kinds = types("describe_share_group_offsets", version)
        topics = partitions and tuple(
            kinds.DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=numbers)
            for name, numbers in partitions.items()
        )
        wanted = kinds.DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=topics)
        (found,) = (await self.call("describe_share_group_offsets", version, groups=(wanted,))).groups
        return found

    async def alter(self, offsets, *, group="g"):
        kinds = types("alter_share_group_offsets", 0)
        topics = {}
        for (name, number), offset in offsets.items():
            topics.setdefault(name, []).append(
                kinds.AlterShareGroupOffsetsRequestPartition(partition_index=number, start_offset=offset)
            )
        return await self.call(
            "alter_share_group_offsets",
            group_id=group,
            topics=tuple(
                kinds.AlterShareGroupOffsetsRequestTopic(topic_name=name, partitions=tuple(partitions))
                for name, partitions in topics.items()
            ),
        )

    async def delete(self, *topics, group="g"):
        kinds = types("delete_share_group_offsets", 0)
        return await self.call(
            "delete_share_group_offsets",
            group_id=group,
            topics=tuple(kinds.DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in topics),
        )


def errors(answer):
    """The errors of the partitions of an answer by topic and number."""
    return {
        (topic.topic_name, one.partition_index): one.error_code
        for topic in answer.responses
        for one in topic.partitions
    }


def by_partition(described):
    """The partitions of a described group by topic and number."""
    return {(topic.topic_name, one.partition_index): one for topic in described.topics for one in topic.partitions}


def assigned(answer):
    """The numbers of assigned partitions by topic id; None if they are not told."""
    if answer.assignment is None:
        return None
    return {topic.topic_id: topic.partitions for topic in answer.assignment.topic_partitions}


def services_of(node):
    """The parts of a simulated node that its handlers work with."""
    return node.node.broker.dispatcher._services


def offer(node, states):
    """Have a node offer share groups, before it coordinates any."""
    node.node.broker.running.groups._states = states
    return SimpleNamespace(client=ShareClient(services_of(node)), states=states)


async def scene(node, partitions=2):
    """A client of share groups and their states, on a node with a topic, whose groups are coordinated."""
    offered = offer(node, MemoryStates())
    client = await node.client()
    await create_topic(client, partitions=partitions)
    await until_coordinated(client)
    return offered.client, offered.states
