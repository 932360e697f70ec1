"""The questions to share coordinators that are not answered yet."""

from collections.abc import Callable, Sequence

from esp.groups.effects import Outbox
from esp.groups.share.effects import DeleteShareStates, InitialiseShareStates, ReadShareSummaries, ShareStart
from esp.groups.share.requests import ShareStateResult, ShareStateResults
from esp.model.errors import ErrorCode
from esp.model.now import Now
from esp.schemas.consumer_group_records import TopicIdPartition

OnStates = Callable[[ShareStateResults, Now], None]

NOT_ANSWERED = ShareStateResult(ErrorCode.coordinator_not_available)
"""The result for a partition of which the driver has heard nothing."""


class StateRequests:
    """Asks by effects, and hands the answers to where they are waited for.

    Args:
        outbox: where the effects go.
    """

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._waiting: dict[int, OnStates] = {}
        self._last_token = 0

    def initialise(self, group_id: str, state_epoch: int, starts: Sequence[ShareStart], on_answer: OnStates) -> None:
        """Ask for states of partitions; ``on_answer`` is called once, unless the coordinator is unloaded before."""
        self._outbox.ask(InitialiseShareStates(self._token(on_answer), group_id, state_epoch, tuple(starts)))

    def delete(self, group_id: str, partitions: Sequence[TopicIdPartition], on_answer: OnStates) -> None:
        """Ask for the deletion of states; as above."""
        self._outbox.ask(DeleteShareStates(self._token(on_answer), group_id, tuple(partitions)))

    def read(self, group_id: str, partitions: Sequence[TopicIdPartition], on_answer: OnStates) -> None:
        """Ask for start offsets; as above."""
        self._outbox.ask(ReadShareSummaries(self._token(on_answer), group_id, tuple(partitions)))

    def on_answered(self, token: int, results: ShareStateResults, now: Now) -> None:
        """The driver reports."""
        self._waiting.pop(token)(results, now)

    def _token(self, on_answer: OnStates) -> int:
        self._last_token += 1
        self._waiting[self._last_token] = on_answer
        return self._last_token
