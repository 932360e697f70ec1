from esp.authentication.failure_delays import (
    ADDRESSES_MAX,
    DELAY_MS_MAX,
    FORGIVING_US,
    FREE_FAILURES,
    FailureDelays,
)


def test_a_malformed_message_counts_and_is_answered_soon() -> None:
    delays = FailureDelays()
    assert {delays.on_failure("a", 0, 100, is_malformed=True) for _ in range(FREE_FAILURES)} == {100}
    assert delays.on_failure("a", 0, 100) == 200
    assert delays.on_failure("a", 0, 60_000, is_malformed=True) == 500
    assert delays.on_failure("a", 0, 0, is_malformed=True) == 0


def test_first_failures_of_an_address_have_the_delay_of_the_settings() -> None:
    delays = FailureDelays()
    assert {delays.on_failure("a", 0, 100) for _ in range(FREE_FAILURES)} == {100}


def test_delay_of_an_address_that_goes_on_failing_grows_to_its_limit() -> None:
    delays = FailureDelays()
    told = [delays.on_failure("a", 0, 100) for _ in range(100)]
    assert told[FREE_FAILURES : FREE_FAILURES + 3] == [200, 400, 800]
    assert told == sorted(told)
    assert told[-1] == DELAY_MS_MAX


def test_other_addresses_do_not_wait_for_it() -> None:
    delays = FailureDelays()
    for _ in range(100):
        delays.on_failure("a", 0, 100)
    assert delays.on_failure("b", 0, 100) == 100


def test_failures_are_forgiven_with_time() -> None:
    delays = FailureDelays()
    for _ in range(FREE_FAILURES + 3):
        delays.on_failure("a", 0, 100)
    assert delays.on_failure("a", 2 * FORGIVING_US, 100) == 400
    assert delays.on_failure("a", 1000 * FORGIVING_US, 100) == 100


def test_without_a_delay_in_the_settings_there_is_none() -> None:
    delays = FailureDelays()
    assert {delays.on_failure("a", 0, 0) for _ in range(100)} == {0}


def test_delay_of_the_settings_above_the_limit_stays() -> None:
    assert FailureDelays().on_failure("a", 0, 60_000) == 60_000


def test_number_of_addresses_is_bounded_and_the_latest_stay() -> None:
    delays = FailureDelays()
    for number in range(ADDRESSES_MAX + 100):
        for _ in range(2 if number == 5 else 1):
            delays.on_failure(str(number), number, 100)
    assert len(delays._failures) == ADDRESSES_MAX
    assert "0" not in delays._failures
