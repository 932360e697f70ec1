"""The states of a record in a share partition, and the events that change them (SHARE-1)."""

from collections.abc import Mapping
from enum import Enum
from typing import Final

from esp.schemas.share_state_records import RecordState


class RecordEvent(Enum):
    """An event in the life of a record that is to be delivered."""

    ACQUIRE = "acquire"
    """A member gets it, and its delivery count rises."""
    ACCEPT = "accept"
    """Its member has done with it."""
    RELEASE = "release"
    """Its member gives it back, its lock or its member's session ends, and it has attempts left."""
    EXHAUST = "exhaust"
    """The same, at the last attempt."""
    REJECT = "reject"
    """Its member says that no attempt can help."""
    RENEW = "renew"
    """Its member keeps it, and its lock begins again."""
    DISCARD = "discard"
    """There is no such record: compacted away, a control record, or of an aborted transaction; or it is found to be out of attempts."""
    CONDEMN = "condemn"
    """It is rejected or out of attempts, in a group that has a dead-letter queue."""
    BURY = "bury"
    """Its dead letter is written, or never will be."""


TRANSITIONS: Final[Mapping[tuple[RecordState, RecordEvent], RecordState]] = {
    (RecordState.AVAILABLE, RecordEvent.ACQUIRE): RecordState.ACQUIRED,
    (RecordState.AVAILABLE, RecordEvent.DISCARD): RecordState.ARCHIVED,
    (RecordState.AVAILABLE, RecordEvent.CONDEMN): RecordState.ARCHIVING,
    (RecordState.ACQUIRED, RecordEvent.ACCEPT): RecordState.ACKNOWLEDGED,
    (RecordState.ACQUIRED, RecordEvent.RELEASE): RecordState.AVAILABLE,
    (RecordState.ACQUIRED, RecordEvent.EXHAUST): RecordState.ARCHIVED,
    (RecordState.ACQUIRED, RecordEvent.REJECT): RecordState.ARCHIVED,
    (RecordState.ACQUIRED, RecordEvent.RENEW): RecordState.ACQUIRED,
    (RecordState.ACQUIRED, RecordEvent.DISCARD): RecordState.ARCHIVED,
    (RecordState.ACQUIRED, RecordEvent.CONDEMN): RecordState.ARCHIVING,
    (RecordState.ARCHIVING, RecordEvent.BURY): RecordState.ARCHIVED,
}
"""Every change that there is: a terminal state never ends."""


def next_state(state: RecordState, event: RecordEvent) -> RecordState:
    """The state after an event, which must be one that can happen in this state."""
    return TRANSITIONS[state, event]
