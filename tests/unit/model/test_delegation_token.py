from esp.model.calendar import LATEST_MS
from esp.model.delegation_token import DelegationToken, parts_of, principal_of


def token(max_ms=100, expiry_ms=50):
    return DelegationToken("id", "User:a", "User:b", ("User:c", "User:d"), 0, max_ms, expiry_ms)


def test_token_counts_until_the_earlier_of_its_ends():
    assert token().left_ms(20) == 30
    assert token(max_ms=40).left_ms(20) == 20
    assert [token().is_expired(now_ms) for now_ms in (49, 50, 51)] == [False, False, True]
    assert [token(max_ms=40).is_expired(now_ms) for now_ms in (40, 41)] == [False, True]


def test_no_token_counts_for_longer_than_dates_can_tell():
    assert token(2**63 - 1, 2**63 - 1).left_ms(0) == LATEST_MS


def test_owner_and_renewers_may_renew_and_the_requester_is_told_too():
    assert [token().may_be_renewed_by(f"User:{name}") for name in "abcde"] == [True, False, True, True, False]
    assert token().principals == ("User:a", "User:b", "User:c", "User:d")


def test_principals_have_a_type_and_a_name_that_may_hold_colons():
    assert principal_of("User", "CN=a:b") == "User:CN=a:b"
    assert parts_of("User:CN=a:b") == ("User", "CN=a:b")
    assert parts_of("nothing") == ("nothing", "")
