"""The requests to a share coordinator, each about one share partition, and the results."""

from typing import NamedTuple

from esp.model.errors import ErrorCode
from esp.schemas.share_state_records import ShareStateKey, StateBatch
from esp.share.persister import PersistedRead, PersistedSummary

NO_EPOCH = -1
"""A reader that does not lead the partition."""


class Initialize(NamedTuple):
    """Begin a state, or begin it again (InitializeShareGroupState)."""

    key: ShareStateKey
    state_epoch: int
    start_offset: int


class Read(NamedTuple):
    """Read the state for the leader of an epoch, which shuts out those before it (ReadShareGroupState)."""

    key: ShareStateKey
    leader_epoch: int
    """NO_EPOCH shuts out nobody."""


class Write(NamedTuple):
    """Change the state (WriteShareGroupState)."""

    key: ShareStateKey
    state_epoch: int
    leader_epoch: int
    start_offset: int
    """NO_START_OFFSET: it stays."""
    complete_count: int
    batches: tuple[StateBatch, ...]


class Delete(NamedTuple):
    """Forget the state (DeleteShareGroupState)."""

    key: ShareStateKey


class ReadSummary(NamedTuple):
    """Read the state without its batches (ReadShareGroupStateSummary)."""

    key: ShareStateKey


Request = Initialize | Read | Write | Delete | ReadSummary


class Done(NamedTuple):
    """The change is persisted, or there was none to be made."""


class Refused(NamedTuple):
    """The request has had no effect; or, with an error that is worth another attempt, may have one."""

    error: ErrorCode
    message: str | None = None
    """Kafka's text; None for the usual one of the error."""


Result = PersistedRead | PersistedSummary | Done | Refused
