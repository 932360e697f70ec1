from hypothesis import given
from hypothesis import strategies as st

from esp.groups.offset_store import OffsetStore
from esp.groups.transactional_offsets import OffsetChange
from esp.model.ids import TopicPartition
from esp.schemas.group_records import OffsetCommitValue
from tests.unit.groups.line_counter import lines_of

changes = st.builds(
    OffsetChange,
    group_id=st.sampled_from(["a", "b"]),
    partition=st.builds(TopicPartition, st.just("t"), st.integers(0, 2)),
    value=st.one_of(st.none(), st.builds(OffsetCommitValue, st.integers(0, 9), st.just(-1), st.just(""), st.just(0))),
)
batches = st.lists(st.tuples(st.lists(changes, min_size=1, max_size=3).map(tuple), st.booleans()), max_size=8)


def replayed(batches):
    state = {"a": {}, "b": {}}
    for change in (change for batch in batches for change in batch):
        state[change.group_id].pop(change.partition, None)
        if change.value is not None:
            state[change.group_id][change.partition] = change.value
    return state


@given(batches, st.integers(0, 8))
def test_committed_and_newest_are_what_a_replay_of_each_says(history, ended_count):
    store = OffsetStore()
    pending = [store.begin(batch) for batch, _ in history]
    ended = list(zip(pending, history, strict=True))[:ended_count]
    for token, (_, is_committed) in ended:
        store.end(token, is_committed=is_committed)
    committed = [batch for _, (batch, is_committed) in ended if is_committed]
    waiting = [batch for batch, _ in history[len(ended) :]]
    for group in ("a", "b"):
        assert store.committed(group) == replayed(committed)[group]
        assert store.newest(group) == replayed(committed + waiting)[group]
    assert set(store.committed_groups()) == {group for group, offsets in replayed(committed).items() if offsets}
    assert set(store.newest_groups()) >= {group for group in ("a", "b") if store.newest(group)}


def test_reading_what_is_not_there_leaves_nothing_behind():
    store = OffsetStore()
    assert store.committed("a") == store.newest("a") == {}
    assert store.newest_groups() == []


def test_a_look_at_a_group_does_not_take_longer_for_what_others_have_on_its_way():
    store = OffsetStore()
    value = OffsetCommitValue(1, -1, "", 0)
    store.begin((OffsetChange("a", TopicPartition("t", 0), value),))
    _, alone = lines_of(lambda: store.newest("a"))
    for _ in range(100):
        store.begin(tuple(OffsetChange("b", TopicPartition("t", number), value) for number in range(10)))
    newest, among_others = lines_of(lambda: store.newest("a"))
    assert newest == {TopicPartition("t", 0): value}
    assert among_others == alone
