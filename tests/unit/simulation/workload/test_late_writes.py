"""Late writes of share states: what is judged of their answers, and what is not."""

import asyncio
import uuid
from random import Random
from types import SimpleNamespace

import pytest

from esp.model.errors import ErrorCode
from esp.model.ids import TopicId
from esp.protocol.registry import ApiKey
from esp.schemas.share_state_records import ShareStateKey
from esp.share.coordinator.requests import Write
from esp.simulation.workload.late_writes import LateWrites

KEY = ShareStateKey("queue", TopicId(uuid.UUID(int=1)), 0)
WRITE = Write(KEY, 1, 2, 5, 0, ())


class Scene:
    """A coordinator that answers with one code, and leads in the epochs that it is said to when it is asked and answers."""

    def __init__(self, code=ErrorCode.none, epochs=(4, 4)):
        self.code = code
        self.epochs = iter(epochs)
        self.events = []
        connection = SimpleNamespace(call=self.call)

        async def connect(*_address):
            return connection

        client = SimpleNamespace(name="late", any_broker=connect, connect=connect)
        history = SimpleNamespace(on_done=lambda *_said: None)
        self.late = LateWrites(client, Random(1), history, self.judge, lambda _key, _address: next(self.epochs))

    async def call(self, key, _version, message, _timeout_s):
        if key is ApiKey.FIND_COORDINATOR:
            return SimpleNamespace(coordinators=[SimpleNamespace(error_code=ErrorCode.none, host="n1", port=9092)])
        self.events.append(message.topics[0].partitions[0].start_offset)
        partition = SimpleNamespace(error_code=self.code)
        return SimpleNamespace(results=[SimpleNamespace(partitions=[partition])])

    def judge(self, write):
        self.events.append("begins")
        return lambda: self.events.append(f"{write.leader_epoch} has succeeded")

    def send(self):
        asyncio.run(self.late._send(WRITE))
        return self.events


def test_success_at_the_newest_coordinator_is_judged_by_what_was_known_before():
    assert Scene().send() == ["begins", 5, "2 has succeeded"]


@pytest.mark.parametrize(
    "scene",
    [Scene(ErrorCode.fenced_state_epoch), Scene(epochs=(None, None)), Scene(epochs=(4, None)), Scene(epochs=(4, 5))],
)
def test_nothing_is_judged_of_a_refusal_or_of_another_coordinator(scene):
    assert scene.send() == ["begins", 5]
