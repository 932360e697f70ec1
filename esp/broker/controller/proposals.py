"""The way of a decision of the active controller into the metadata log.

Decide, then replay: a decision is made on the newest state, committed or not; its records are replayed and appended at once. No request is
answered before they are committed (RAFT-21), not even with a refusal, since the state that it rests on may not be committed yet. A
controller that no longer leads by then answers NOT_CONTROLLER, and the decision may or may not hold (PROMISE-7).
"""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from esp.controller.decision import BATCH_RECORDS_MAX, Decision, divide_into_batches
from esp.controller.image import ClusterImage
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import LeaderEpoch, NodeId
from esp.raft.member import LeaderContact
from esp.schemas.metadata_records import MetadataRecord

Reply = TypeVar("Reply")


class Quorum(Protocol):
    """The part of the quorum that the controller needs: :class:`~esp.broker.raft.driver.RaftDriver` is one."""

    @property
    def epoch(self) -> LeaderEpoch:
        """The highest epoch seen."""

    @property
    def leader(self) -> NodeId | None:
        """The leader of the quorum."""

    @property
    def leader_contact(self) -> LeaderContact | None:
        """The other leader that has answered this node last, and the time of its answer."""

    @property
    def is_active(self) -> bool:
        """True if this node leads and has applied everything that came before (RAFT-22)."""

    @property
    def next_offset(self) -> int:
        """The offset that the next record gets."""

    @property
    def has_followers(self) -> bool:
        """True if this node leads, and another member has its log: another voter, or an observer."""

    def propose(self, values: Sequence[bytes]) -> None:
        """Append one batch of records."""

    async def committed(self, offset: int) -> None:
        """Return when everything below ``offset`` is committed and applied.

        Raises:
            ApiError: NOT_CONTROLLER, when leadership of the epoch is lost first.
        """

    def on_leadership(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` whenever epoch, leader or ``is_active`` has changed."""


class NewestMetadata(Protocol):
    """The part of the state machine that the controller needs: :class:`~esp.broker.raft.loader.MetadataLoader` is one."""

    @property
    def newest(self) -> ClusterImage:
        """The committed state with everything that this node has proposed."""

    @property
    def in_transaction(self) -> bool:
        """True if it stands within a metadata transaction."""

    def propose(self, raft: Quorum, records: Sequence[MetadataRecord]) -> None:
        """Replay records onto the newest state, and append them to the log as one batch."""


class Proposals:
    """Makes decisions on the newest state.

    Args:
        quorum: says whether this node may, and when what it proposed is committed.
        metadata: the newest state.
        batch_records_max: the most records of one batch.
    """

    def __init__(self, quorum: Quorum, metadata: NewestMetadata, batch_records_max: int = BATCH_RECORDS_MAX) -> None:
        self._quorum = quorum
        self._metadata = metadata
        self._batch_records_max = batch_records_max

    @property
    def newest(self) -> ClusterImage:
        """The state on which the next decision is made."""
        return self._metadata.newest

    @property
    def next_offset(self) -> int:
        """The offset of the first record of the next decision."""
        return self._quorum.next_offset

    @property
    def has_followers(self) -> bool:
        """True if another member sees the decisions."""
        return self._quorum.has_followers

    def require_active(self) -> None:
        """Only the active controller decides.

        Raises:
            ApiError: NOT_CONTROLLER.
        """
        quorum = self._quorum
        if not quorum.is_active:
            known = quorum.leader is not None
            raise ApiError(
                ErrorCode.not_controller,
                f"The active controller appears to be node {quorum.leader}."
                if known
                else "No controller appears to be active.",
            )

    def propose(self, decide: Callable[[ClusterImage], Decision[Reply]], name: str) -> Reply:
        """Decide and propose all at once; the reply is not for others before :meth:`settled` has returned.

        Args:
            decide: makes the decision.
            name: of the metadata transaction, if one is needed.

        Raises:
            ApiError: NOT_CONTROLLER, or the decision is a refusal.
        """
        decision = self.propose_slice(decide, name)
        assert decision.rest is None, "this decision is made in one slice"
        return decision.reply

    def propose_slice(self, decide: Callable[[ClusterImage], Decision[Reply]], name: str) -> Decision[Reply]:
        """Decide and propose a slice: mostly the whole decision. The arguments, and what it raises, are those of :meth:`propose`.

        With each batch the quorum looks at the clock, and may find that this node was away for so long that it leads no more (RAFT-7). A
        metadata transaction ends there then, and the next controller aborts it.
        """
        self.require_active()
        decision = decide(self._metadata.newest)
        for batch in divide_into_batches(decision.records, name, self._batch_records_max):
            self.require_active()
            self._metadata.propose(self._quorum, batch)
        return decision

    async def settled(self) -> None:
        """Return when everything that was proposed so far is committed.

        Raises:
            ApiError: NOT_CONTROLLER: leadership was lost first.
        """
        await self.committed(self._quorum.next_offset)

    async def committed(self, offset: int) -> None:
        """Return when everything below ``offset`` is committed.

        Raises:
            ApiError: NOT_CONTROLLER: leadership was lost first.
        """
        await self._quorum.committed(offset)

    async def commit(self, decide: Callable[[ClusterImage], Decision[Reply]], name: str) -> Reply:
        """Decide, propose, and return the reply, or raise the refusal, once everything decided so far is committed. See :meth:`propose`."""
        self.require_active()
        refusal: ApiError | None = None
        try:
            reply = self.propose(decide, name)
        except ApiError as error:
            refusal = error
        await self.settled()
        if refusal is not None:
            raise refusal
        return reply
