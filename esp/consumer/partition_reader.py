"""The batches of one partition between two offsets, over one connection to its leader.

The next Fetch is asked as soon as the batches of an answer are found, before they are handed to the caller: the broker reads while the
caller decodes. A leader that moves or restarts is followed; records are handed over once, since the next question always begins behind
the last batch that was.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from esp.arrow.errors import Place
from esp.arrow.scanning import Batches, scan_batches
from esp.arrow.selection import AbortedTransaction
from esp.consumer import messages
from esp.consumer.cluster import Address, Cluster, LedPartition
from esp.consumer.connection import Connection, Deadline, Terms
from esp.consumer.errors import (
    NO_ERROR,
    OFFSET_OUT_OF_RANGE,
    ConnectionLostError,
    ConsumerError,
    LostRecordsError,
    describe,
    explain,
    is_retriable,
)
from esp.consumer.messages import EARLIEST, LATEST, Fetched, Partition, Wanted
from esp.protocol.errors import DecodeError

FETCH_BYTES: Final = 8 * 1024 * 1024
"""More than Kafka's consumers ask for: numpy's steps cost the same for many records as for few."""


@dataclass(frozen=True, slots=True)
class FetchTerms:
    """The terms of fetches.

    Attributes:
        max_bytes: the bytes of an answer; one batch is answered whatever its size.
        partition_max_bytes: likewise.
        min_bytes: the bytes for which a broker waits.
        max_wait_ms: for so long.
        is_read_committed: whether aborted transactions are left out, and undecided ones waited for.
        checks_crcs: whether batches are held against their checksums.
        fails_on_loss: whether records that are not there any more are an error, or passed over.
        stall_s: the time without progress after which reading fails.
        backoff_s: the pause before a broker is asked again.
        loss_remedy: the remedy of that error, for its message.
        recreated_remedy: likewise where the topic was deleted and created again.
    """

    max_bytes: int = FETCH_BYTES
    partition_max_bytes: int = FETCH_BYTES
    min_bytes: int = 1
    max_wait_ms: int = 500
    is_read_committed: bool = False
    checks_crcs: bool = True
    fails_on_loss: bool = True
    stall_s: float = 120.0
    backoff_s: float = 0.1
    loss_remedy: str = "begin at an offset that is there"
    recreated_remedy: str = "start the query again"


class FetchedBatches(NamedTuple):
    """Batches of one answer, and what is to be read of them: offsets from ``first_offset`` on, up to ``end_offset``.

    ``aborted`` are the aborted transactions among them, None under read_uncommitted.
    """

    batches: Batches
    first_offset: int
    end_offset: int
    aborted: Sequence[AbortedTransaction] | None


class PartitionReader:
    """Reads a partition. :meth:`close` ends its connection.

    Args:
        partition: the partition.
        servers: the bootstrap servers, for when its leader is another one.
        leader: where the leader was found last; None if it was not looked for.
        topic_id: of the topic whose records are read, and not those of another one by its name; empty or of zeros if any topic of the
            name is read.
        terms: of connections.
        fetch_terms: of fetches.
        warn: called with the text of a loss that is no error.
    """

    def __init__(
        self,
        partition: Partition,
        servers: Sequence[Address],
        leader: LedPartition | None,
        terms: Terms,
        fetch_terms: FetchTerms,
        warn: Callable[[str], None],
        topic_id: bytes = b"",
    ) -> None:
        self._topic_id = topic_id if any(topic_id) else b""
        self._partition = partition
        self._place = Place(partition.topic, partition.number)
        self._servers = servers
        self._leader = leader
        self._terms = terms
        self._fetch_terms = fetch_terms
        self._warn = warn
        self._connection: Connection | None = None
        self._api = messages.FETCH

    def close(self) -> None:
        """End the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def read(self, first_offset: int, end_offset: int) -> Iterator[FetchedBatches]:
        """Yield the batches that hold the offsets from ``first_offset`` up to ``end_offset``.

        Raises:
            LostRecordsError: records are gone and that is an error.
            ConsumerError: records may not be read, or do not come in time.
            BrokenBatchError: a batch is not the one that was written.
        """
        offset = first_offset
        stall = Deadline(self._fetch_terms.stall_s)
        while offset < end_offset:
            try:
                fetched = self._fetch(offset)
            except ConnectionLostError as error:
                self._recover(str(error), offset, stall)
                continue
            if fetched.error == OFFSET_OUT_OF_RANGE:
                offset = self._skip_lost(offset, end_offset)
                continue
            if fetched.error != NO_ERROR:
                if not is_retriable(fetched.error):
                    raise ConsumerError(f"{self._partition}, offset {offset}: {explain(fetched.error)}")
                self._recover(describe(fetched.error), offset, stall)
                continue
            batches = scan_batches(
                fetched.memory, self._place, size=fetched.size, check_crcs=self._fetch_terms.checks_crcs
            )
            if batches.next_offset is None or batches.next_offset <= offset:
                self._check_stall("no more records are there", offset, end_offset, stall)
                continue
            read_to = batches.next_offset
            if read_to < end_offset:
                self._ask(read_to)
            aborted = [AbortedTransaction(*each) for each in fetched.aborted]
            yield FetchedBatches(batches, offset, end_offset, aborted if self._fetch_terms.is_read_committed else None)
            offset = read_to
            stall = Deadline(self._fetch_terms.stall_s)

    def _ask(self, offset: int) -> None:
        """Send the next question; if that fails, the answer that is waited for fails."""
        assert self._connection is not None, "questions go to a connection"
        assert self._leader is not None, "a connection is one to a leader"
        terms = self._fetch_terms
        wanted = Wanted(
            self._partition,
            offset,
            self._leader.epoch,
            terms.partition_max_bytes,
            terms.max_bytes,
            terms.min_bytes,
            terms.max_wait_ms,
            terms.is_read_committed,
            "",
            self._topic_id if self._api is messages.FETCH_BY_ID else b"",
        )
        try:
            self._connection.send(self._api, messages.encode_fetch(wanted))
        except ConnectionLostError:
            self.close()

    def _fetch(self, offset: int) -> Fetched:
        """The answer for an offset, which may have been asked for already.

        Raises:
            ConnectionLostError: the leader does not answer.
            ConsumerError: the topic is another one.
        """
        if self._leader is None:
            self._leader = self._look_for_leader()
        if self._connection is None:
            self._check(self._leader)
            self._connection = Connection(self._leader.broker.host, self._leader.broker.port, self._terms)
            asks_by_id = self._topic_id and self._connection.serves(messages.FETCH_BY_ID)
            self._api = messages.FETCH_BY_ID if asks_by_id else messages.FETCH
        if not self._connection.has_answers_due:
            self._ask(offset)
        if self._connection is None:
            raise ConnectionLostError("the leader ended the connection")
        decode = messages.decode_fetch_by_id if self._api is messages.FETCH_BY_ID else messages.decode_fetch
        try:
            return decode(self._connection.receive())
        except DecodeError as error:
            raise ConsumerError(f"{self._partition}: an answer to Fetch cannot be read: {error}") from error

    def _look_for_leader(self) -> LedPartition:
        """Return where the leader is.

        Raises:
            ConsumerError: the topic is another one; or it has no leader until the time is over.
        """
        with self._cluster() as cluster:
            return self._check(cluster.find_leaders([self._partition])[self._partition])

    def _check(self, found: LedPartition) -> LedPartition:
        """Return where the leader is, if it leads the topic that is read.

        Raises:
            ConsumerError: the topic is another one.
        """
        if self._topic_id and any(found.topic_id) and found.topic_id != self._topic_id:
            raise ConsumerError(
                f"{self._partition}: the topic was deleted and created again since it was planned to be read: "
                f"{self._fetch_terms.recreated_remedy}"
            )
        return found

    def _cluster(self) -> Cluster:
        servers = list(self._servers)
        if self._leader is not None:
            servers.append(Address(self._leader.broker.host, self._leader.broker.port))
        return Cluster(servers, self._terms, self._fetch_terms.stall_s, self._fetch_terms.backoff_s)

    def _recover(self, reason: str, offset: int, stall: Deadline) -> None:
        """Look for the leader again.

        Raises:
            ConsumerError: the time without progress is over.
        """
        self.close()
        if stall.is_over:
            raise ConsumerError(
                f"{self._partition}: no answer for offset {offset} in {stall.timeout_s:g} s: {reason}: look at its leader"
            )
        stall.pause(self._fetch_terms.backoff_s)
        self._leader = self._look_for_leader()

    def _check_stall(self, reason: str, offset: int, end_offset: int, stall: Deadline) -> None:
        """Raises: ConsumerError: the time without progress is over."""
        if stall.is_over:
            raise ConsumerError(
                f"{self._partition}: offsets {offset} to {end_offset - 1} did not come in {stall.timeout_s:g} s: {reason}: read up to "
                f"{offset}, or, if a transaction is open there, end it"
            )

    def _skip_lost(self, offset: int, end_offset: int) -> int:
        """Return the offset to go on with after records that are gone.

        Raises:
            LostRecordsError: that is an error.
            ConsumerError: the topic is another one.
        """
        with self._cluster() as cluster:
            earliest = cluster.find_offsets({self._partition: EARLIEST})[self._partition].offset
            latest = cluster.find_offsets({self._partition: LATEST})[self._partition].offset
            self._check(cluster.find_leaders([self._partition])[self._partition])  # questions for offsets have no ids
        if earliest <= offset < latest:
            return offset  # they are there by now
        stop = min(earliest, end_offset) if offset < earliest else end_offset
        there = f"{earliest} to {latest - 1}" if earliest < latest else f"no record, and ends at {latest}"
        lost = f"{self._partition}: offsets {offset} to {stop - 1} are not there (it has {there})"
        if self._fetch_terms.fails_on_loss:
            raise LostRecordsError(
                f"{lost}: records were deleted, or the topic was created again: {self._fetch_terms.loss_remedy}",
                earliest,
            )
        self._warn(f"{lost}, and are passed over")
        return stop
