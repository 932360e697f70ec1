"""Which keys there are, and when they are fetched: transcripts, and a model of an hour of attack."""

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esp.authentication.signing_keys import SigningKeys

MS = 1_000
REFRESH_MS, BACKOFF_MS, BACKOFF_MAX_MS = 60_000, 100, 1_000


class Key(NamedTuple):
    kid: str | None
    kind: str = "RSA"


def new_keys() -> SigningKeys[Key]:
    return SigningKeys(REFRESH_MS, BACKOFF_MS, BACKOFF_MAX_MS, 0)


def fetched(*keys: Key) -> SigningKeys[Key]:
    made = new_keys()
    made.begin(0)
    made.on_fetched(keys, 0)
    return made


def kids(keys: SigningKeys[Key], kid: str | None, kind: str = "RSA") -> list[str | None]:
    return [key.kid for key in keys.find(kid, lambda key: key.kind == kind)]


def test_keys_are_found_by_name_and_kind_and_without_a_name_all_of_the_kind():
    keys = fetched(Key("a"), Key("b", "EC"), Key(None))
    assert kids(keys, "a") == ["a"]
    assert kids(keys, "b") == []
    assert kids(keys, "c") == []
    assert kids(keys, None) == ["a", None]


def test_first_fetch_is_due_at_once_and_the_next_after_a_while():
    keys = new_keys()
    assert (keys.due_us, keys.are_there, kids(keys, None)) == (0, False, [])
    keys.begin(0)
    assert keys.is_fetching
    keys.on_fetched([Key("a")], 7)
    assert (keys.due_us, keys.are_there, keys.is_fetching) == (7 + REFRESH_MS * MS, True, False)


def test_keys_stay_while_the_provider_is_away_and_it_is_asked_less_and_less():
    keys = fetched(Key("a"))
    now_us, waits = REFRESH_MS * MS, []
    for _ in range(6):
        keys.begin(now_us)
        keys.on_failed(now_us)
        assert kids(keys, "a") == ["a"]
        waits.append((keys.due_us - now_us) // MS)
        now_us = keys.due_us
    assert waits == [100, 200, 400, 800, 1000, 1000]
    keys.begin(now_us)
    keys.on_fetched([Key("a")], now_us)
    assert keys.due_us == now_us + REFRESH_MS * MS
    keys.begin(keys.due_us)
    keys.on_failed(now_us)
    assert keys.due_us == now_us + BACKOFF_MS * MS


def test_keys_that_the_provider_has_no_more_are_forgotten():
    keys = fetched(Key("a"), Key("b"))
    keys.begin(1)
    keys.on_fetched([Key("b")], 1)
    assert kids(keys, None) == ["b"]


def test_unknown_key_has_them_fetched_once_per_delay_that_doubles():
    keys = fetched(Key("a"))
    now_us, waits = 0, []
    for _ in range(6):
        begun_us = now_us
        while not keys.may_fetch(now_us):
            now_us += 10 * MS
        waits.append((now_us - begun_us) // MS)
        keys.begin(now_us)
        keys.on_fetched([Key("a")], now_us)
    assert waits == [100, 100, 200, 400, 800, 1000]


def test_new_keys_end_the_delay():
    keys = fetched(Key("a"))
    for now_us in range(0, 10_000_000, 1_000_000):
        keys.begin(now_us)
        keys.on_fetched([Key("a")], now_us)
    keys.begin(20_000_000)
    keys.on_fetched([Key("b")], 20_000_000)
    assert not keys.may_fetch(20_000_000 + 999 * MS)
    assert keys.may_fetch(21_000_000)
    keys.begin(21_000_000)
    keys.on_fetched([Key("b")], 21_000_000)
    assert keys.may_fetch(21_000_000 + BACKOFF_MS * MS)


@given(
    asked_ms=st.lists(st.integers(0, 100), min_size=1, max_size=200),
    works=st.lists(st.booleans(), min_size=1, max_size=20),
)
def test_provider_is_asked_at_most_once_per_delay_whatever_tokens_come(asked_ms, works):
    keys = fetched(Key("a"))
    now_us, fetches = 0, 0
    for number, wait_ms in enumerate(asked_ms):
        now_us += wait_ms * MS
        if keys.may_fetch(now_us):
            keys.begin(now_us)
            fetches += 1
            if works[number % len(works)]:
                keys.on_fetched([Key("a")], now_us)
            else:
                keys.on_failed(now_us)
        assert kids(keys, "a") == ["a"]
    # 100 + 200 + 400 + 800 ms, then one a second
    assert fetches <= 5 + now_us // (BACKOFF_MAX_MS * MS)


def test_one_fetch_is_made_at_a_time():
    keys = new_keys()
    keys.begin(0)
    with pytest.raises(AssertionError):
        keys.begin(1)
