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
