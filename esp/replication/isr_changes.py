"""A leader's AlterPartition requests for one partition, from proposal to answer (ISR-1, ISR-9, ISR-10).

One change at a time. Until its fate is known the larger of both ISRs counts (HW-3): a replica that is to be added counts already, one
that is to be removed counts still. :data:`TRANSITIONS` holds the legal steps, :data:`VERDICTS` the meaning of each answer.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final, NamedTuple

from esp.model.errors import ErrorCode
from esp.model.ids import NodeId
from esp.model.partition import PartitionState


class ChangeKind(Enum):
    """The purpose of a change; Kafka's pending partition states, and one of ours."""

    EXPAND = "PendingExpand"
    SHRINK = "PendingShrink"
    RECOVERED = "PendingRecovered"
    CONFIRM = "PendingConfirm"
    """The committed ISR once more, after an expansion was refused: its new partition epoch fences copies of the refused request."""


class Phase(Enum):
    """The state of a change."""

    COMMITTED = "no change is pending"
    IN_FLIGHT = "sent, not answered"
    RESEND = "not answered, to be sent again"
    UNSURE = "its outcome is unknown until newer metadata arrives"


class Event(Enum):
    """An event in the life of a change."""

    SENT = "sent"
    INSTALLED = "a state at least as new is committed"
    REFUSED = "the controller did not apply it"
    FATE_UNKNOWN = "an earlier copy may have been applied"
    LOST = "no answer, or an inconclusive one"


TRANSITIONS: Final[Mapping[tuple[Phase, Event], Phase]] = {
    (Phase.COMMITTED, Event.SENT): Phase.IN_FLIGHT,
    (Phase.COMMITTED, Event.INSTALLED): Phase.COMMITTED,
    (Phase.IN_FLIGHT, Event.INSTALLED): Phase.COMMITTED,
    (Phase.IN_FLIGHT, Event.REFUSED): Phase.COMMITTED,
    (Phase.IN_FLIGHT, Event.FATE_UNKNOWN): Phase.UNSURE,
    (Phase.IN_FLIGHT, Event.LOST): Phase.RESEND,
    (Phase.RESEND, Event.SENT): Phase.IN_FLIGHT,
    (Phase.RESEND, Event.INSTALLED): Phase.COMMITTED,
    (Phase.UNSURE, Event.INSTALLED): Phase.COMMITTED,
}
"""The legal transitions; any other is a bug."""

VERDICTS: Final[Mapping[ErrorCode, Event]] = {
    ErrorCode.none: Event.INSTALLED,
    ErrorCode.ineligible_replica: Event.REFUSED,
    ErrorCode.operation_not_attempted: Event.REFUSED,
    ErrorCode.new_leader_elected: Event.FATE_UNKNOWN,
    ErrorCode.fenced_leader_epoch: Event.FATE_UNKNOWN,
    ErrorCode.invalid_update_version: Event.FATE_UNKNOWN,
    ErrorCode.invalid_request: Event.FATE_UNKNOWN,
    ErrorCode.unknown_topic_or_partition: Event.FATE_UNKNOWN,
    ErrorCode.unknown_topic_id: Event.FATE_UNKNOWN,
}
"""ISR-9: the meaning of each answer. Every other code, and no answer at all, is :attr:`Event.LOST`."""


@dataclass(frozen=True, slots=True, eq=False)
class IsrChange:
    """A proposal to the controller: the fields of AlterPartition for a partition (ISR-6), but for the sender's id.

    ``members`` pairs each member of the wanted ISR with its broker epoch, -1 if this leader does not know it.
    """

    kind: ChangeKind
    members: tuple[tuple[NodeId, int], ...]
    leader_epoch: int
    partition_epoch: int
    recovering: bool

    @property
    def isr(self) -> tuple[NodeId, ...]:
        """The wanted ISR."""
        return tuple(node for node, _epoch in self.members)


class IsrAnswer(NamedTuple):
    """The controller's answer for one partition; all but the code is of meaning only with ``ErrorCode.none``."""

    error_code: ErrorCode
    isr: tuple[NodeId, ...] = ()
    leader: NodeId = NodeId(-1)
    leader_epoch: int = -1
    partition_epoch: int = -1
    recovering: bool = False


class IsrChanges:
    """The committed state of a partition as its leader knows it, and the one change that may be pending.

    Args:
        state: the partition, as committed.
    """

    __slots__ = ("_unconfirmed", "committed", "maximal_isr", "pending", "phase")

    def __init__(self, state: PartitionState) -> None:
        self.committed = state
        self.pending: IsrChange | None = None
        """The change whose fate is open; there is one exactly while the phase is not COMMITTED."""
        self.phase = Phase.COMMITTED
        self._unconfirmed: frozenset[NodeId] = frozenset()
        self.maximal_isr = frozenset(state.isr)
        """The replicas that are in the ISR or may be, as a change is pending (HW-3)."""

    @property
    def needs_confirmation(self) -> bool:
        """True if a refused expansion may still reach the controller as another copy: nothing else is proposed before that is settled."""
        return bool(self._unconfirmed)

    def propose(self, change: IsrChange) -> IsrChange:
        """Begin a change, and return it to be sent."""
        assert change.partition_epoch == self.committed.partition_epoch
        assert change.leader_epoch == self.committed.leader_epoch
        assert self.pending is None, "one change at a time (ISR-1)"
        assert self.committed.leader in change.isr, "a leader is in sync with itself"
        assert set(change.isr).issubset(self.committed.replicas), "only replicas are in sync (ISR-11)"
        self._move(Event.SENT)
        self.pending = change
        self._count()
        return change

    def resend(self) -> IsrChange | None:
        """The pending change if it is to be sent again (at most one is in flight, ISR-1)."""
        if self.phase is not Phase.RESEND:
            return None
        self._move(Event.SENT)
        return self.pending

    def install(self, state: PartitionState) -> bool:
        """Take over the state in the metadata log: the one place where the committed state changes (ISR-10). True if it was newer.

        A state of the same partition epoch brings nothing of the ISR, and leaves a pending change alone.
        """
        if state.partition_epoch < self.committed.partition_epoch:
            return False
        is_newer = state.partition_epoch > self.committed.partition_epoch
        self.committed = state
        if is_newer:
            self._settle()
        else:
            self._count()
        return is_newer

    def on_answer(self, change: IsrChange, answer: IsrAnswer) -> None:
        """Take in the answer to ``change``.

        Args:
            change: as it was handed out.
            answer: the controller's; for no answer in time any code that settles nothing, such as REQUEST_TIMED_OUT.
        """
        verdict = VERDICTS.get(answer.error_code, Event.LOST)
        if verdict is Event.INSTALLED:
            installed = replace(
                self.committed, isr=answer.isr, partition_epoch=answer.partition_epoch, recovering=answer.recovering
            )
            # The metadata may have come first, with the epoch of this answer: that settles the change as well (KAFKA-12751).
            is_equal = answer.partition_epoch == self.committed.partition_epoch
            if not self.install(installed) and is_equal and change is self.pending:
                self._settle()
            return
        if change is not self.pending or self.phase is not Phase.IN_FLIGHT:
            return
        self._move(verdict)
        if verdict is Event.REFUSED:
            self.pending = None
            if change.kind is ChangeKind.EXPAND:
                # The channel may have sent it more than once, and across connections nothing keeps order: a copy that
                # comes late would be applied, if the replica is eligible by then. So its additions count on.
                self._unconfirmed |= frozenset(change.isr) - frozenset(self.committed.isr)
            self._count()

    def _settle(self) -> None:
        self._move(Event.INSTALLED)
        self.pending = None
        self._unconfirmed = frozenset()
        self._count()

    def _move(self, event: Event) -> None:
        self.phase = TRANSITIONS[self.phase, event]

    def _count(self) -> None:
        members = frozenset(self.committed.isr) | self._unconfirmed
        if self.pending is not None:
            members |= frozenset(self.pending.isr)
        assert (self.pending is None) is (self.phase is Phase.COMMITTED), (
            "a change is pending until its outcome is known"
        )
        self.maximal_isr = members
