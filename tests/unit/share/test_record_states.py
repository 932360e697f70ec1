"""Every state of a record and every event: the ones that can happen, and the ones that cannot."""

import itertools

import pytest

from esp.schemas.share_state_records import RecordState
from esp.share.record_states import RecordEvent, next_state

TABLE = {
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


@pytest.mark.parametrize(("state", "event"), list(itertools.product(RecordState, RecordEvent)))
def test_each_event_has_one_outcome_or_cannot_happen(state, event):
    if (state, event) in TABLE:
        assert next_state(state, event) is TABLE[state, event]
    else:
        with pytest.raises(KeyError):
            next_state(state, event)


def test_a_record_that_is_done_with_never_changes():
    assert not any(state.is_terminal for state, _event in TABLE)
    assert [state for state in RecordState if state.is_terminal] == [RecordState.ACKNOWLEDGED, RecordState.ARCHIVED]
