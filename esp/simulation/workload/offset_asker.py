"""Asks leaders, followers and former leaders where a partition's log begins and ends, and reads from any of them.

Consumers that only read forward notice little of what a broker tells beside the records. This client asks for everything that a broker
tells of offsets (ListOffsets, OffsetForLeaderEpoch, Fetch from the leader or from a replica in the rack), in any order, with the leader
epoch that it knows or without one, and shows each answer to :class:`~esp.simulation.checkers.told_offsets.ToldOffsets`.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from random import Random
from typing import Final

from esp.model.errors import ErrorCode
from esp.model.ids import TopicId
from esp.ports.network import Address
from esp.protocol.registry import ApiKey
from esp.simulation.checkers.told_offsets import Asked, Position, Role, ToldOffsets
from esp.simulation.workload import offset_requests as requests
from esp.simulation.workload.cluster_client import ClusterClient
from esp.simulation.workload.connection import ClientConnection, NoAnswerError
from esp.simulation.workload.consumer import IsSpoilt, Seen, nothing_is_spoilt, split_batches
from esp.simulation.workload.history import History

TIMEOUT_S: Final = 5.0
PAUSE_S: Final = 0.2
HURRY_S: Final = 0.02
"""After an error: what a new leader says first is worth most."""

NO_EPOCH: Final = -1
FORMER_PAUSE_S: Final = 1.0
"""Between two questions to all former leaders of a partition."""

STRAY_SHARE: Final = 0.2
"""The share of the requests that go to any broker, as those of a client whose metadata are old."""

EPOCHS_OFF: Final = (0, 0, 0, 0, -1, 1)
"""The difference between the leader epoch that is named and the known one: old metadata, and some that the broker has not got yet."""

TIMESTAMPS: Final = (
    *(requests.LATEST,) * 6,
    requests.EARLIEST,
    requests.EARLIEST_LOCAL,
    requests.MAX_TIMESTAMP,
    None,
    None,
)
"""The timestamps that are asked for, each as often as it is drawn; None for a time at which a record is known to have been written."""

Witness = Callable[[Address, TopicId, int], tuple[int, Role | None]]
"""The node at an address, and what it is for a partition at the moment, in truth."""

LogStartOf = Callable[[int], int]
"""The log start of the replica of a partition on a node."""


class OffsetAsker:
    """Asks about all partitions; each partition in a task of its own.

    Args:
        client: its connections.
        rng: its own stream of randomness.
        history: counts what was read.
        told: judges the answers.
        seen: told of every answer with records.
        witness: looks at the broker that is asked.
        racks: in which a reader may be.
        is_spoilt: whether bits of a batch flipped on the way here: it is asked for again.
    """

    def __init__(
        self,
        client: ClusterClient,
        rng: Random,
        history: History,
        told: ToldOffsets,
        seen: Seen,
        witness: Witness,
        racks: Sequence[str],
        *,
        is_spoilt: IsSpoilt = nothing_is_spoilt,
    ) -> None:
        self.is_stopping = False
        self.emptied_replicas = 0
        """Replicas in sync whose log started behind all committed records in the end: only the end of the log was read there."""
        self._client = client
        self._rng = rng
        self._history = history
        self._told = told
        self._seen = seen
        self._witness = witness
        self._racks = tuple(racks)
        self._is_spoilt = is_spoilt
        self._positions: dict[tuple[TopicId, int], Position] = {}
        self._preferred: dict[tuple[TopicId, int], int] = {}

    async def run(self, topic: str, topic_id: TopicId, partition: int) -> None:
        """Ask about one partition until told to stop."""
        is_in_hurry = False
        while not self.is_stopping:
            pause_s = PAUSE_S
            try:
                await self.ask(topic, topic_id, partition, is_in_hurry=is_in_hurry)
                is_in_hurry = False
            except NoAnswerError as error:
                self._history.on_no_answer(f"{self._client.name} of {topic}-{partition}", str(error))
                self._client.forget_leader(topic, partition)
                pause_s = HURRY_S
                is_in_hurry = True
            await asyncio.sleep(pause_s * self._rng.uniform(0.2, 1.8))

    async def ask_former_leaders(self, topic: str, topic_id: TopicId, partition: int) -> None:
        """Ask all former leaders of a partition for the end that any client was told of, as clients with old metadata, until told to stop.

        Raises:
            ViolationError: see :class:`~esp.simulation.checkers.told_offsets.ToldOffsets`.
        """
        key, known = (topic_id, partition), dict[int, None]()
        while not self.is_stopping:
            with contextlib.suppress(NoAnswerError):
                await self._client.refresh([topic])
            leadership = self._client.leaders.get((topic, partition))
            if leadership is not None and self._client.topic_ids.get(topic) == topic_id:
                known[leadership.node_id] = None
                for node_id in [number for number in known if number != leadership.node_id]:
                    address = self._client.address_of(node_id)
                    if address is None:
                        continue
                    try:
                        connection = await self._client.connect(address)
                        position = Position(self._told.told_end(key), NO_EPOCH)
                        await self._read_from(connection, topic_id, partition, position, epoch=NO_EPOCH, rack="")
                    except NoAnswerError as error:
                        self._history.on_no_answer(f"{self._client.name} of {topic}-{partition}", str(error))
            await asyncio.sleep(FORMER_PAUSE_S * self._rng.uniform(0.2, 1.8))

    async def find_short(
        self,
        topic: str,
        topic_id: TopicId,
        partition: int,
        nodes: Sequence[int],
        last_offset: int,
        tries: int,
        log_start: LogStartOf,
    ) -> str | None:
        """A problem, if a broker does not tell all that is committed, of a partition that is whole and idle; None if all do (LIVE-READ).

        A replica whose own log starts behind the last record, which retention or a deletion may have taken since (INV-LOG-START), has to
        answer a reader at the end of its log.

        Args:
            topic: its name.
            topic_id: and id.
            partition: its number.
            nodes: the brokers in sync, each of which must serve the last record.
            last_offset: of that.
            tries: how often each is asked, as a client does that finds new leaders.
            log_start: where the replica of a node starts at the moment, in truth.
        """
        problem = ""
        left = dict.fromkeys(nodes)
        is_latest_told = False
        for _ in range(tries):
            try:
                connection, leadership = await self._client.leader(topic, partition)
                if not is_latest_told:
                    epoch = leadership.leader_epoch
                    latest = await self.list_offset(connection, topic, topic_id, partition, requests.LATEST, epoch)
                    if latest != last_offset + 1:
                        return f"the latest offset is reported as {latest}, not {last_offset + 1}"
                    is_latest_told = True
                for node_id in tuple(left):
                    address = self._client.address_of(node_id)
                    if address is None:
                        raise NoAnswerError(f"node {node_id} is not known")
                    connection = await self._client.connect(address)
                    is_emptied = log_start(node_id) > last_offset
                    position = Position(last_offset + is_emptied, NO_EPOCH)
                    is_told = await self._read_from(connection, topic_id, partition, position, epoch=NO_EPOCH, rack="")
                    if not (is_told or is_emptied):
                        raise NoAnswerError(f"node {node_id} reports nothing of {last_offset}")
                    self.emptied_replicas += is_emptied
                    del left[node_id]
            except NoAnswerError as error:
                problem = str(error)
                self._client.forget_leader(topic, partition)
                await asyncio.sleep(PAUSE_S)
            if is_latest_told and not left:
                return None
        return problem

    async def ask(self, topic: str, topic_id: TopicId, partition: int, *, is_in_hurry: bool = False) -> None:
        """Ask one thing; in a hurry, for what a new leader may not know yet.

        Raises:
            NoAnswerError: there is no answer, or an error that newer metadata may heal.
            ViolationError: see :class:`~esp.simulation.checkers.told_offsets.ToldOffsets`.
        """
        rng = self._rng
        connection, leadership = await self._client.leader(topic, partition)
        if self._client.topic_ids.get(topic) != topic_id:
            raise NoAnswerError("the topic is not there, or another one of the name")
        epoch = max(NO_EPOCH, leadership.leader_epoch + rng.choice(EPOCHS_OFF)) if rng.random() < 0.6 else NO_EPOCH
        nearer = self._client.address_of(self._preferred.pop((topic_id, partition), NO_EPOCH))
        is_stray = not is_in_hurry and rng.random() < STRAY_SHARE
        if is_stray:
            connection = await self._client.any_broker()
        try:
            chance = rng.random()
            if is_in_hurry or chance < 0.5:
                timestamp = self._draw_timestamp((topic_id, partition), is_in_hurry=is_in_hurry)
                await self.list_offset(connection, topic, topic_id, partition, timestamp, epoch)
            elif chance < 0.65 and (topic_id, partition) in self._positions:
                await self._ask_epoch_end(connection, topic, topic_id, partition, epoch)
            else:
                if nearer is not None:
                    connection = await self._client.connect(nearer)
                await self._fetch(connection, topic_id, partition, epoch)
        except NoAnswerError:
            if not (is_stray or nearer is not None or epoch not in (NO_EPOCH, leadership.leader_epoch)):
                raise

    def _draw_timestamp(self, key: tuple[TopicId, int], *, is_in_hurry: bool) -> int:
        """The timestamp for ListOffsets: in a hurry, the latest offset or one of the last records that are known."""
        rng = self._rng
        timestamp = rng.choice(TIMESTAMPS if not is_in_hurry else (requests.LATEST, None))
        if timestamp is None:
            timestamp = self._told.known_time(key, rng.uniform(0.5, 1) if is_in_hurry else rng.random())
        return timestamp or requests.LATEST

    def _ask(self, connection: ClientConnection, topic_id: TopicId, partition: int, epoch: int) -> Asked:
        node_id, role = self._witness(connection.address, topic_id, partition)
        now_s = asyncio.get_running_loop().time()
        return Asked(self._client.name, (topic_id, partition), node_id, now_s, role, epoch)

    def _role(self, connection: ClientConnection, topic_id: TopicId, partition: int) -> Role | None:
        return self._witness(connection.address, topic_id, partition)[1]

    async def list_offset(
        self, connection: ClientConnection, topic: str, topic_id: TopicId, partition: int, timestamp: int, epoch: int
    ) -> int:
        """Ask for an offset by what it means, or by time; returns it. Raises as :meth:`ask`."""
        isolation = self._rng.choice((0, 1))
        asked = self._ask(connection, topic_id, partition, epoch)
        request = requests.list_offsets(topic, partition, timestamp, leader_epoch=epoch, isolation=isolation)
        answer = await connection.call(ApiKey.LIST_OFFSETS, requests.LIST_OFFSETS_VERSION, request, TIMEOUT_S)
        part = answer.topics[0].partitions[0]
        if part.error_code is not ErrorCode.none:
            raise NoAnswerError(part.error_code.name)
        role = self._role(connection, topic_id, partition)
        match timestamp:
            case requests.LATEST:
                self._told.on_latest(asked, role, part.offset, part.leader_epoch)
            case requests.EARLIEST | requests.EARLIEST_LOCAL:
                self._told.on_earliest(asked, role, part.offset)
            case requests.MAX_TIMESTAMP:
                self._told.on_max_timestamp(asked, role, part.timestamp, part.offset)
            case _:
                self._told.on_time(asked, role, timestamp, part.timestamp, part.offset)
        return int(part.offset)

    async def _ask_epoch_end(
        self, connection: ClientConnection, topic: str, topic_id: TopicId, partition: int, epoch: int
    ) -> None:
        position = self._positions[topic_id, partition]
        wanted = position.epoch if self._rng.random() < 0.7 else self._rng.randint(0, position.epoch)
        asked = self._ask(connection, topic_id, partition, epoch)
        request = requests.offset_for_leader_epoch(topic, partition, wanted, leader_epoch=epoch)
        version = requests.OFFSET_FOR_LEADER_EPOCH_VERSION
        answer = await connection.call(ApiKey.OFFSET_FOR_LEADER_EPOCH, version, request, TIMEOUT_S)
        part = answer.topics[0].partitions[0]
        if part.error_code is not ErrorCode.none:
            raise NoAnswerError(part.error_code.name)
        role = self._role(connection, topic_id, partition)
        self._told.on_epoch_end(asked, role, wanted, part.leader_epoch, part.end_offset)

    async def _fetch(self, connection: ClientConnection, topic_id: TopicId, partition: int, epoch: int) -> None:
        rng = self._rng
        key = (topic_id, partition)
        position = self._positions.get(key)
        if position is None or rng.random() < 0.3:
            position = Position(rng.choice((0, self._told.told_end(key), rng.randint(0, self._told.told_end(key)))), -1)
        rack = rng.choice(("", *self._racks))
        await self._read_from(connection, topic_id, partition, position, epoch=epoch, rack=rack)

    async def _read_from(
        self,
        connection: ClientConnection,
        topic_id: TopicId,
        partition: int,
        position: Position,
        *,
        epoch: int,
        rack: str,
    ) -> bool:
        """Read at a position; returns whether there was something. Raises as :meth:`ask`."""
        rng = self._rng
        key = (topic_id, partition)
        asked = self._ask(connection, topic_id, partition, epoch)
        request = requests.fetch_anywhere(
            topic_id,
            partition,
            position.offset,
            leader_epoch=epoch,
            last_epoch=position.epoch,
            rack=rack,
            isolation=rng.choice((0, 1)),
            max_bytes=rng.choice((1, 1000, 1 << 20)),
            wait_s=rng.choice((0.0, 0.0, 0.2)),
        )
        answer = await connection.call(ApiKey.FETCH, requests.FETCH_VERSION, request, TIMEOUT_S)
        if answer.error_code is not ErrorCode.none or not answer.responses:
            raise NoAnswerError(answer.error_code.name)
        part = answer.responses[0].partitions[0]
        role = self._role(connection, topic_id, partition)
        if part.error_code is ErrorCode.offset_out_of_range:
            self._told.on_out_of_range(asked, role, position.offset, position.epoch)
            self._positions.pop(key, None)
        if part.error_code is not ErrorCode.none:
            raise NoAnswerError(part.error_code.name)
        if part.diverging_epoch.epoch >= 0:
            self._told.on_diverging(asked, role, position, part.diverging_epoch.epoch, part.diverging_epoch.end_offset)
            self._positions.pop(key, None)
            return False
        if part.preferred_read_replica >= 0:
            self._preferred[key] = part.preferred_read_replica
        batches = split_batches(part.records, self._is_spoilt)
        if batches:
            self._seen(self._client.name, topic_id, partition, position.offset, batches)
            self._history.read_records += sum(header.record_count for header, _ in batches)
            last, _ = batches[-1]
            self._positions[key] = Position(last.next_offset, last.leader_epoch)
        self._told.on_fetched(
            asked,
            role,
            part.high_watermark,
            part.log_start_offset,
            [(header.base_offset, Position(header.next_offset, header.leader_epoch)) for header, _ in batches],
        )
        for header, _ in batches:
            self._told.on_record(key, header.base_timestamp, header.base_offset)
        return bool(batches)
