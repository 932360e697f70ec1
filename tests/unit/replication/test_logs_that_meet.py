"""A follower keeps nothing but what its leader had, also where that has let go of it by now (LOG-4, TRUNC-3 to TRUNC-5)."""

from hypothesis import given
from hypothesis import strategies as st

from esp.model.errors import ApiError
from esp.replication.partition_follower import FetchAnswer, Next
from esp.storage.leader_epochs import LeaderEpochs
from tests.unit.replication.logs import ME, C, fetch, following, leading, state

NOW = 99
"""The epoch in which one leads and the other follows."""
ROUNDS_MAX = 20

common = st.lists(st.integers(1, 4), max_size=5).map(sorted)
leaders = st.lists(st.sampled_from([6, 8, 10]), max_size=5).map(sorted)
followers = st.lists(st.sampled_from([5, 7, 9, 11]), max_size=5).map(sorted)


@given(
    common=common,
    leaders=leaders,
    followers=followers,
    own_end=st.integers(0, 3),
    start=st.integers(0, 10),
    own_start=st.integers(0, 10),
    forgets=st.booleans(),
)
def test_all_that_stays_in_a_followers_log_was_in_its_leaders(
    common, leaders, followers, own_end, start, own_start, forgets
):
    """``own_end``: records of the last common epoch that the follower alone has; ``forgets``: the leader knows its batches' epochs only."""
    history = common + leaders
    leader = leading(history, state(epoch=NOW, isr=(ME,)))
    leader.log.high_watermark = len(history)
    start = min(start, len(history))
    leader.log.raise_log_start(start)
    if forgets:
        leader.log.leader_epochs = LeaderEpochs()
        for offset, epoch in (*enumerate(history), (len(history), NOW)):
            if offset >= start:
                leader.log.leader_epochs.assign(epoch, offset)
    follower = following(common + common[-1:] * own_end + followers, epoch=NOW)
    log = follower.log
    log.high_watermark = min(own_start, len(common))
    log.raise_log_start(log.high_watermark)
    for _ in range(ROUNDS_MAX):
        position = follower.position
        try:
            offsets = fetch(leader, C, position.fetch_offset, last_epoch=position.last_fetched_epoch, epoch=NOW)
        except ApiError as error:
            answer = FetchAnswer(error.code)
        else:
            if not offsets.diverges:
                break
            answer = FetchAnswer(
                0, diverging_epoch=offsets.diverging_epoch, diverging_end_offset=offsets.diverging_end_offset
            )
        if follower.on_answer(position, answer, 0) is Next.ASK_RANGE:
            assert follower.on_leader_range(position, start, len(history)) is Next.FETCH
    else:
        raise AssertionError("the logs never meet")
    kept = [batch.header for batch in (*log.hidden, *log.batches)]
    assert all(history[header.base_offset] == header.leader_epoch for header in kept)
