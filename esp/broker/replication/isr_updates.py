"""Changes of in-sync sets on their way from this node's leaders to the controller and back.

There is one AlterPartition request at a time, with all changes that are due by then. A change that was not answered is sent again, until
the metadata or an answer settles it (ISR-9): by its partition epoch, the controller recognizes a repeated proposal.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from kio.schema.alter_partition.v3.request import AlterPartitionRequest, BrokerState, PartitionData, TopicData
from kio.schema.alter_partition.v3.response import AlterPartitionResponse
from kio.schema.types import BrokerId
from kio.static.primitive import i8, i32, i64

from esp.broker.controller_client.channel import ControllerCalls
from esp.broker.replication.hosted_partition import HostedPartition
from esp.broker.tasks import Tasks
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import BrokerEpoch, LeaderEpoch, NodeId
from esp.ports.env import Env
from esp.protocol.registry import ApiKey
from esp.replication.isr_changes import IsrAnswer, IsrChange
from esp.replication.partition_leader import PartitionLeader

log = logging.getLogger(__name__)

CALL_TIMEOUT_MS: Final = 10_000
"""The time in which the channel may find a controller that answers, before the request is made anew from the state at that moment."""

RETRY_US: Final = 200_000
"""The pause before something is sent that the controller has just refused to look at."""


class _Sent(NamedTuple):
    hosted: HostedPartition
    leader: PartitionLeader
    change: IsrChange


class IsrUpdates:
    """Collects, sends and settles changes of in-sync sets.

    Args:
        env: the outside.
        node_id: this node.
        lag_time_max_ms: ``replica.lag.time.max.ms``; laggards are looked for twice in it (ISR-3).
        channel: the channel to the controller.
        broker_epoch: this node's, as registered last.
        tasks: where the work lives.
        leaders: the partitions that are led here.
    """

    def __init__(
        self,
        env: Env,
        node_id: NodeId,
        lag_time_max_ms: int,
        channel: ControllerCalls,
        broker_epoch: Callable[[], BrokerEpoch],
        tasks: Tasks,
        leaders: Callable[[], Iterable[HostedPartition]],
    ) -> None:
        self._env = env
        self._node_id = node_id
        self._check_interval_us = lag_time_max_ms * 1000 // 2
        self._channel = channel
        self._broker_epoch = broker_epoch
        self._leaders = leaders
        self._wanted: dict[HostedPartition, None] = {}
        self._something = asyncio.Event()
        self._closed = False
        tasks.start(self._send_forever(), name="changes of in-sync sets")
        tasks.start(self._check_forever(), name="search for lagging replicas")

    def wanted(self, hosted: HostedPartition) -> None:
        """The in-sync set of ``hosted`` may have to change: a follower has caught up, or the metadata is new."""
        self._wanted[hosted] = None
        self._something.set()

    def close(self) -> None:
        """Send nothing more."""
        self._closed = True
        self._something.set()

    async def _check_forever(self) -> None:
        while not self._closed:
            await self._env.clock.sleep_us(self._check_interval_us)
            for hosted in self._leaders():
                self.wanted(hosted)

    async def _send_forever(self) -> None:
        while not self._closed:
            await self._something.wait()
            self._something.clear()
            while self._wanted and not self._closed:
                sent = self._take_wanted()
                if sent and not await self._send(sent):
                    await self._env.clock.sleep_us(RETRY_US)

    def _take_wanted(self) -> list[_Sent]:
        wanted, self._wanted = self._wanted, {}
        now_us = self._env.clock.monotonic_us()
        broker_epoch = self._broker_epoch()
        sent = []
        for hosted in wanted:
            leader = hosted.leader
            if leader is None:
                continue
            committed = leader.log.high_watermark
            change = leader.next_isr_change(now_us, broker_epoch)
            if leader.log.high_watermark != committed:  # no request waits for the replica about to join (HW-4)
                hosted.committed()
            if change is not None:
                log.info("%s: %s of the in-sync set to %s proposed", hosted.name, change.kind.name.lower(), change.isr)
                sent.append(_Sent(hosted, leader, change))
        return sent

    async def _send(self, sent: list[_Sent]) -> bool:
        """Send changes and let their leaders know of the answers; False if something has to be sent again."""
        self._env.maybe("an in-sync set is to change")
        try:
            response: AlterPartitionResponse = await self._channel.call(
                ApiKey.ALTER_PARTITION, self._request(sent), timeout_ms=CALL_TIMEOUT_MS
            )
        except ApiError as error:
            answers, whole = {}, IsrAnswer(error.code)
        else:
            answers = _answers(response)
            # A partition that is missing from the answer was not looked at, as far as this node can know.
            code = response.error_code
            whole = IsrAnswer(ErrorCode.request_timed_out if code is ErrorCode.none else _unsettled(code))
        all_settled = True
        now_us = self._env.clock.monotonic_us()
        for hosted, leader, change in sent:
            answer = answers.get(hosted.key, whole)
            if answer.error_code is not ErrorCode.none:
                log.info("%s: the controller answered %s", hosted.name, answer.error_code.name)
            moved = leader.on_isr_answer(change, answer, now_us)
            if hosted.leader is not leader:
                continue
            if answer.error_code is not ErrorCode.none:
                all_settled = False
            self._wanted[hosted] = None  # there may be more to say, or the same again
            if moved:
                hosted.committed()
        return all_settled

    def _request(self, sent: list[_Sent]) -> AlterPartitionRequest:
        topics: dict[bytes, list[_Sent]] = {}
        for item in sent:
            topics.setdefault(item.hosted.key[0], []).append(item)
        return AlterPartitionRequest(
            broker_id=BrokerId(self._node_id),
            broker_epoch=i64(self._broker_epoch()),
            topics=tuple(
                TopicData(
                    topic_id=items[0].hosted.topic_id,
                    partitions=tuple(_partition(item.hosted, item.change) for item in items),
                )
                for items in topics.values()
            ),
        )


def _partition(hosted: HostedPartition, change: IsrChange) -> PartitionData:
    return PartitionData(
        partition_index=i32(hosted.name.partition),
        leader_epoch=i32(change.leader_epoch),
        new_isr_with_epochs=tuple(
            BrokerState(broker_id=BrokerId(node), broker_epoch=i64(epoch)) for node, epoch in change.members
        ),
        leader_recovery_state=i8(1 if change.recovering else 0),
        partition_epoch=i32(change.partition_epoch),
    )


def _answers(response: AlterPartitionResponse) -> dict[tuple[bytes, int], IsrAnswer]:
    if response.error_code is not ErrorCode.none:
        return {}
    return {
        (topic.topic_id.bytes, int(partition.partition_index)): IsrAnswer(
            partition.error_code,
            tuple(NodeId(node) for node in partition.isr),
            NodeId(partition.leader_id),
            LeaderEpoch(partition.leader_epoch),
            partition.partition_epoch,
            recovering=partition.leader_recovery_state == 1,
        )
        for topic in response.topics
        if topic.topic_id is not None
        for partition in topic.partitions
    }


def _unsettled(code: ErrorCode) -> ErrorCode:
    """A request that was refused as a whole, such as with STALE_BROKER_EPOCH, settles nothing of its partitions: they are asked again."""
    log.warning("the controller refused changes of in-sync sets: %s", code.name)
    return ErrorCode.request_timed_out
