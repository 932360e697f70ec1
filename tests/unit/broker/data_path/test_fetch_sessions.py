from typing import NamedTuple

import pytest

from esp.broker.data_path.fetch_sessions import EVICTABLE_AFTER_US, FetchSessions, Told
from esp.model.errors import ApiError, ErrorCode

TOLD = Told(10, 10, 0)


class Item(NamedTuple):
    topic: str
    partition: int
    offset: int = 0


class CountingRandom:
    def __init__(self) -> None:
        self.given = -1

    def below(self, limit: int) -> int:
        self.given += 1
        return self.given


def sessions(slots=2) -> FetchSessions[Item]:
    return FetchSessions(CountingRandom(), slots)


def keys(session) -> list[tuple[str, int]]:
    return [(item.topic, item.partition) for item in session]


def test_a_session_id_is_never_zero():
    assert sessions().open([Item("a", 0)], by_topic_id=False, now_us=0).session_id == 1


def test_a_session_is_resumed_only_with_the_next_epoch():
    cache = sessions()
    opened = cache.open([Item("a", 0)], by_topic_id=False, now_us=0)
    for wrong in (0, 2, 7):
        with pytest.raises(ApiError) as caught:
            cache.resume(opened.session_id, wrong, by_topic_id=False, now_us=0)
        assert caught.value.code is ErrorCode.invalid_fetch_session_epoch
    for epoch in (1, 2, 3):
        assert cache.resume(opened.session_id, epoch, by_topic_id=False, now_us=0) is opened


def test_the_epoch_after_the_largest_is_one():
    cache = sessions()
    opened = cache.open([Item("a", 0)], by_topic_id=False, now_us=0)
    opened.epoch = 2**31 - 1
    cache.resume(opened.session_id, 2**31 - 1, by_topic_id=False, now_us=0)
    assert opened.epoch == 1


def test_an_unknown_session_and_a_change_between_names_and_ids_are_refused():
    cache = sessions()
    opened = cache.open([Item("a", 0)], by_topic_id=False, now_us=0)
    with pytest.raises(ApiError) as caught:
        cache.resume(opened.session_id + 1, 1, by_topic_id=False, now_us=0)
    assert caught.value.code is ErrorCode.fetch_session_id_not_found
    with pytest.raises(ApiError) as caught:
        cache.resume(opened.session_id, 1, by_topic_id=True, now_us=0)
    assert caught.value.code is ErrorCode.fetch_session_topic_id_error


def test_incremental_requests_add_change_and_forget_partitions():
    cache = sessions()
    session = cache.open([Item("a", 0), Item("a", 1)], by_topic_id=False, now_us=0)
    session.update([Item("a", 1, offset=9), Item("b", 0)], [("a", 0)])
    assert list(session) == [Item("a", 1, offset=9), Item("b", 0)]


def test_a_partition_that_gave_records_is_read_last_the_next_time():
    session = sessions().open([Item("a", 0), Item("a", 1), Item("a", 2)], by_topic_id=False, now_us=0)
    session.answered(("a", 0), TOLD, with_records=True)
    session.answered(("a", 1), TOLD, with_records=False)
    assert keys(session) == [("a", 1), ("a", 2), ("a", 0)]


def test_a_partition_without_news_is_left_out_and_a_forgotten_one_starts_anew():
    session = sessions().open([Item("a", 0)], by_topic_id=False, now_us=0)
    assert session.has_news(("a", 0), TOLD)
    session.answered(("a", 0), TOLD, with_records=False)
    assert not session.has_news(("a", 0), TOLD)
    assert session.has_news(("a", 0), TOLD._replace(high_watermark=11))
    session.update([], [("a", 0)])
    session.update([Item("a", 0)], [])
    assert session.has_news(("a", 0), TOLD)


def test_a_full_cache_serves_without_a_session_until_one_is_unused_for_long():
    cache = sessions(slots=2)
    first = cache.open([Item("a", 0)], by_topic_id=False, now_us=0)
    second = cache.open([Item("a", 0)], by_topic_id=False, now_us=0)
    assert cache.open([Item("a", 0)], by_topic_id=False, now_us=EVICTABLE_AFTER_US - 1) is None
    cache.resume(first.session_id, 1, by_topic_id=False, now_us=EVICTABLE_AFTER_US - 1)
    assert cache.open([Item("a", 0)], by_topic_id=False, now_us=EVICTABLE_AFTER_US) is not None
    cache.resume(first.session_id, 2, by_topic_id=False, now_us=EVICTABLE_AFTER_US)
    with pytest.raises(ApiError):
        cache.resume(second.session_id, 1, by_topic_id=False, now_us=EVICTABLE_AFTER_US)


def test_without_slots_there_are_no_sessions_and_a_closed_one_is_gone():
    assert sessions(slots=0).open([Item("a", 0)], by_topic_id=False, now_us=0) is None
    cache = sessions()
    opened = cache.open([Item("a", 0)], by_topic_id=False, now_us=0)
    cache.close(opened.session_id)
    cache.close(opened.session_id)
    assert len(cache) == 0
