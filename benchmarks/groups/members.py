"""Members of groups of the consumer protocol (KIP-848), of few parts, many of which one loop drives: they read nothing."""

import select
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from typing import Any, Final

from kio.schema.consumer_group_heartbeat.v1 import request as heartbeat
from kio.schema.types import GroupId, TopicName
from kio.static.primitive import i32, i32Timedelta

from benchmarks.client import CLIENT_ID, Client, UnexpectedAnswerError, check
from benchmarks.groups.coordinator import PATIENCE, await_coordinator
from esp.protocol.headers import read_response_header
from esp.protocol.messages import decode_response, encode_request
from esp.protocol.registry import ApiKey

HEARTBEAT_VERSION: Final = 1
JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
REBALANCE_TIMEOUT: Final = i32Timedelta.parse(timedelta(minutes=5))

_TIMEOUT_S: Final = 60.0


class Member:
    """A member of a consumer group, and its connection. It gives partitions back in the moment in which it is asked to.

    Args:
        port: of the broker.
        group: its id.
        topic: read by the member.
    """

    def __init__(self, port: int, group: str, topic: str) -> None:
        self.client = Client(port)
        self.epoch = JOIN_EPOCH
        self.owned = 0
        """The number of its partitions."""
        self.is_settled = False
        """True if the coordinator has heard that the member has all that it was assigned."""
        self._group = GroupId(group)
        self._topic = TopicName(topic)
        self._id = str(uuid.uuid4())
        self._news: tuple[Any, ...] | None = ()
        """The partitions of which the coordinator has not heard yet."""

    def beat(self) -> None:
        """Send a heartbeat: a whole one to join, else the news alone."""
        is_joining = self.epoch == JOIN_EPOCH
        request = heartbeat.ConsumerGroupHeartbeatRequest(
            group_id=self._group,
            member_id=self._id,
            member_epoch=i32(self.epoch),
            rebalance_timeout=REBALANCE_TIMEOUT if is_joining else i32Timedelta.parse(timedelta(milliseconds=-1)),
            subscribed_topic_names=(self._topic,) if is_joining else None,
            topic_partitions=() if is_joining else self._news,
        )
        self.client.socket.sendall(
            encode_request(ApiKey.CONSUMER_GROUP_HEARTBEAT, HEARTBEAT_VERSION, 0, CLIENT_ID, request)
        )

    def take(self) -> None:
        """Take the answer to the heartbeat.

        Raises:
            UnexpectedAnswerError: the coordinator refuses the member.
        """
        data = self.client.receive()
        start = read_response_header(data, ApiKey.CONSUMER_GROUP_HEARTBEAT, HEARTBEAT_VERSION)[1]
        answer = decode_response(ApiKey.CONSUMER_GROUP_HEARTBEAT, HEARTBEAT_VERSION, data[start:])
        if answer.error_code in PATIENCE:
            return
        check(answer.error_code, f"heartbeat of group {self._group}")
        was_joining, self.epoch = self.epoch == JOIN_EPOCH, int(answer.member_epoch)
        self.is_settled = not was_joining and answer.assignment is None
        if answer.assignment is None:
            self._news = None
            return
        self._news = tuple(
            heartbeat.TopicPartitions(topic_id=topic.topic_id, partitions=topic.partitions)
            for topic in answer.assignment.topic_partitions
        )
        self.owned = sum(len(topic.partitions) for topic in self._news)

    def leave(self) -> None:
        """Leave the group, and wait for the answer."""
        self.epoch, self._news = LEAVE_EPOCH, None
        self.beat()
        self.take()


class Crew:
    """The members of one group or of several, each with one heartbeat in flight.

    Args:
        members: all of them.
        poller: knows their connections.
    """

    def __init__(self, members: Sequence[Member], poller: select.epoll) -> None:
        self.members = members
        self._poller = poller
        self._by_descriptor = {member.client.socket.fileno(): member for member in members}

    def beat_until(self, is_done: Callable[[], bool], pause_s: float) -> None:
        """Beat, each member ``pause_s`` after its last answer, until ``is_done``.

        Raises:
            UnexpectedAnswerError: it takes longer than a minute.
        """
        deadline = time.monotonic() + _TIMEOUT_S
        due = [(0.0, member) for member in self.members]
        waiting = 0
        while True:
            now = time.monotonic()
            if now > deadline:
                raise UnexpectedAnswerError(f"the members are not done within {_TIMEOUT_S:.0f} s")
            is_over = is_done()
            while due and due[0][0] <= now and not is_over:
                due.pop(0)[1].beat()
                waiting += 1
            if is_over and not waiting:
                return
            wait_s = 0.1 if is_over or not due else max(0.0, due[0][0] - now)
            for descriptor, _ in self._poller.poll(wait_s):
                member = self._by_descriptor[descriptor]
                member.take()
                waiting -= 1
                due.append((time.monotonic() + pause_s, member))

    def beat_times(self, count: int) -> None:
        """Beat so many times in all, each member as soon as it is answered."""
        unsent = count
        for member in self.members[:unsent]:
            member.beat()
            unsent -= 1
        answered = 0
        while answered < count:
            for descriptor, _ in self._poller.poll():
                member = self._by_descriptor[descriptor]
                member.take()
                answered += 1
                if unsent:
                    unsent -= 1
                    member.beat()


@contextmanager
def crew(port: int, groups: Sequence[str], members: int, topic: str) -> Iterator[Crew]:
    """Connect so many members of each group; in the end all of them leave."""
    with ExitStack() as stack, select.epoll() as poller:
        made = []
        for group in groups:
            await_coordinator(port, group)
            for _ in range(members):
                member = Member(port, group, topic)
                stack.callback(member.client.close)
                poller.register(member.client.socket.fileno(), select.EPOLLIN)
                made.append(member)
        yield Crew(made, poller)
        for member in made:
            member.leave()
