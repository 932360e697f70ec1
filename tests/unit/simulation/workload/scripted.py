"""A cluster for tests of clients that answers by a script: each answer is an error, or a call that makes it."""

from types import SimpleNamespace

from esp.model.errors import ErrorCode
from esp.simulation.workload.cluster_client import Leadership
from esp.simulation.workload.connection import NoAnswerError
from esp.simulation.workload.history import History
from tests.unit.storage.helpers import TOPIC_ID

TOPIC = "flights"


def new_history():
    return History(lambda _who, _line: None)


class ScriptedConnection:
    """Takes requests; ``answers`` are used up one after another, and the last one stands for all that follow."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.sent = []
        """The requests that are answered."""
        self.unanswered = []

    def send(self, _api_key, _version, message):
        self.sent.append(message)
        return message

    def send_only(self, _api_key, _version, message):
        self.unanswered.append(message)

    async def answer(self, message, _api_key, _version, _timeout_s):
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, NoAnswerError):
            raise answer
        return answer(message) if callable(answer) else answer

    async def call(self, api_key, version, message, timeout_s):
        return await self.answer(self.send(api_key, version, message), api_key, version, timeout_s)


class ScriptedCluster:
    """What a :class:`esp.simulation.workload.cluster_client.ClusterClient` knows, with one broker."""

    def __init__(self, connection, *, topic_id=TOPIC_ID):
        self.name = "client"
        self.topic_ids = {TOPIC: topic_id}
        self.forgotten = 0
        self._connection = connection

    async def leader(self, _topic, _partition):
        return self._connection, Leadership(1, 5)

    async def any_broker(self):
        return ScriptedConnection(SimpleNamespace(error_code=ErrorCode.none, producer_id=7))

    def forget_leader(self, _topic, _partition):
        self.forgotten += 1


def answered_offsets(topics, committed=None):
    """The topics of an answer about committed offsets, of the topics of its request.

    ``committed`` has offset and metadata of each partition that has them, by :func:`partition_key`.
    """
    return tuple(
        SimpleNamespace(
            topic_id=getattr(topic, "topic_id", None),
            name=getattr(topic, "name", None),
            partitions=tuple(
                SimpleNamespace(
                    partition_index=index,
                    error_code=ErrorCode.none,
                    committed_offset=offset,
                    metadata=metadata,
                )
                for index in indexes(topic)
                for offset, metadata in [(committed or {}).get(partition_key(topic, index), (-1, ""))]
            ),
        )
        for topic in topics
    )


def indexes(topic):
    """The numbers of the partitions that a request about offsets names of a topic."""
    parts = getattr(topic, "partitions", None) or topic.partition_indexes
    return [getattr(part, "partition_index", part) for part in parts]


def partition_key(topic, index):
    """A partition, by the topic's id or name, whichever the version of the request has."""
    return getattr(topic, "topic_id", None) or topic.name, index
