"""The claims of tokens whose signatures are right."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esp.authentication.claims import NAME_CHARACTERS_MAX, check_claims
from esp.authentication.errors import AuthenticationError
from esp.authentication.oauthbearer import KnownToken
from tests.models.access_tokens import AUDIENCE, ISSUER, NOW_MS, TERMS

NOW_S = NOW_MS // 1000
GOOD = {"iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "iat": NOW_S, "exp": NOW_S + 300}


def check(claims, **terms):
    made = TERMS if not terms else type(TERMS)(**{name: getattr(TERMS, name) for name in TERMS.__slots__} | terms)
    return check_claims(claims, made, NOW_MS)


def without(*names):
    return {name: value for name, value in GOOD.items() if name not in names}


@pytest.mark.parametrize(
    ("changes", "groups"),
    [
        ({}, ()),
        ({"aud": ["x", "other"]}, ()),
        ({"iat": NOW_S + 30, "nbf": NOW_S + 30}, ()),
        ({"iat": NOW_S - 0.5, "exp": NOW_S + 300.0}, ()),
        ({"scope": "kafka"}, ()),
        ({"scope": ["a", "b"]}, ()),
        ({"groups": "staff"}, ("staff",)),
        ({"groups": ["staff", "/admins", "staff"]}, ("staff", "/admins")),
        ({"groups": []}, ()),
        ({"azp": {"any": ["thing"]}, "jti": 5}, ()),
    ],
)
def test_token_that_keeps_to_the_terms_is_believed(changes, groups):
    assert check(GOOD | changes) == KnownToken("alice", groups, (NOW_S + 300) * 1000)


@pytest.mark.parametrize(
    ("claims", "words"),
    [
        ({}, "issuer is missing"),
        (without("iss"), "issuer is missing"),
        (GOOD | {"iss": "https://login.example"}, "its issuer is 'https://login.example', and not"),
        (GOOD | {"iss": ISSUER + "x"}, "its issuer"),
        (GOOD | {"iss": [ISSUER]}, "its issuer"),
        (without("aud"), "audience is missing"),
        (GOOD | {"aud": "kafka-2"}, "its audience is 'kafka-2', and not kafka or other"),
        (GOOD | {"aud": []}, "its audience"),
        (GOOD | {"aud": [None, 5, ["kafka"]]}, "its audience"),
        (GOOD | {"aud": {"kafka": 1}}, "its audience"),
        (without("exp"), "no claim exp"),
        (without("iat"), "no claim iat"),
        (GOOD | {"exp": NOW_S - 10}, "expired 10 s ago"),
        (GOOD | {"exp": NOW_S}, "expired 0 s ago"),
        (GOOD | {"exp": str(NOW_S + 300)}, "exp is no time"),
        (GOOD | {"exp": True}, "exp is no time"),
        (GOOD | {"exp": float("nan")}, "exp is no time"),
        (GOOD | {"exp": float("inf")}, "exp is no time"),
        (GOOD | {"exp": 10**400}, "exp is no time"),
        (GOOD | {"exp": -1}, "exp is no time"),
        (GOOD | {"exp": 253_402_300_800}, "exp is no time"),
        (GOOD | {"iat": NOW_S + 31}, "its iat is 31 s ahead"),
        (GOOD | {"nbf": NOW_S + 31}, "its nbf is 31 s ahead"),
        (GOOD | {"nbf": "soon"}, "nbf is no time"),
        (without("sub"), "sub holds no name"),
        (GOOD | {"sub": ""}, "sub holds no name"),
        (GOOD | {"sub": "  "}, "sub holds no name"),
        (GOOD | {"sub": 5}, "sub holds no name"),
        (GOOD | {"sub": ["alice"]}, "sub holds no name"),
        (GOOD | {"sub": " alice"}, "not printed as it is"),
        (GOOD | {"sub": "alice\n"}, "not printed as it is"),
        (GOOD | {"sub": "al\u202eice"}, "not printed as it is"),
        (GOOD | {"sub": "a" * (NAME_CHARACTERS_MAX + 1)}, "too long"),
        (GOOD | {"groups": ["staff", 5]}, "groups holds no name"),
        (GOOD | {"groups": ["staff", ""]}, "groups holds no name"),
        (GOOD | {"groups": {"staff": 1}}, "groups holds no name"),
        (GOOD | {"scope": ["a", "a "]}, "scope twice"),
        (GOOD | {"scope": ["a", ""]}, "no list of scopes"),
        (GOOD | {"scope": 5}, "no list of scopes"),
    ],
)
def test_token_that_does_not_is_refused_with_the_reason(claims, words):
    with pytest.raises(AuthenticationError, match=words) as refused:
        check(claims)
    assert not refused.value.message


def test_claims_may_have_other_names():
    claims = GOOD | {"upn": "bob", "scp": ["a"], "roles": ["r"], "groups": ["g"]}
    made = check(claims, subject_claim="upn", scope_claim="scp", groups_claim="roles")
    assert (made.user, made.groups) == ("bob", ("r",))


def test_groups_count_only_where_their_claim_is_named():
    assert check(GOOD | {"groups": ["staff"]}, groups_claim="").groups == ()


def test_skew_gives_no_life_to_an_expired_token():
    with pytest.raises(AuthenticationError, match="expired"):
        check(GOOD | {"exp": NOW_S - 1}, clock_skew_ms=3_600_000)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from([ISSUER, AUDIENCE, NOW_S + 10]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from([*GOOD, "nbf", "scope", "groups"]), VALUES))
def test_claims_of_any_kind_are_believed_or_refused(changes):
    try:
        made = check(GOOD | changes)
    except AuthenticationError:
        return
    assert made.user.strip() == made.user
    assert made.user
    assert made.expires_ms > NOW_MS
