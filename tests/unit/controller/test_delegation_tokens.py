import pytest

from esp.controller.delegation_tokens import (
    REMOVALS_MAX,
    DelegationTokens,
    TokenCreation,
    check_principals,
    decide_sweep,
)
from esp.model.calendar import LATEST_MS
from esp.model.delegation_terms import DelegationTerms
from esp.model.errors import ApiError, ErrorCode
from tests.unit.controller.samples import Cluster, SeededRandom

TERMS = DelegationTerms(key="secret", max_lifetime_ms=1_000, expiry_time_ms=100)
NOW = 10_000


class Tokens:
    """The tokens of a cluster, at a time that passes only if it is told to."""

    def __init__(self, terms=TERMS):
        self.cluster = Cluster()
        self.decisions = DelegationTokens(terms, SeededRandom())
        self.now_ms = NOW

    @property
    def known(self):
        return self.cluster.image.delegation_tokens

    def create(self, owner="User:alice", requester="User:alice", renewers=(), lifetime_ms=-1):
        creation = TokenCreation(owner, requester, tuple(renewers), lifetime_ms)
        return self.cluster.decide(self.decisions.decide_creation(creation, self.now_ms))

    def renew(self, token, period_ms=-1, principal="User:alice"):
        return self._change(self.decisions.decide_renewal, token, period_ms, principal)

    def expire(self, token, period_ms=-1, principal="User:alice"):
        return self._change(self.decisions.decide_expiry, token, period_ms, principal)

    def _change(self, decide, token, period_ms, principal):
        hmac = self.decisions.hmac(token)
        return self.cluster.decide(decide(self.cluster.image, hmac, principal, period_ms, self.now_ms))


def code_of(change, *arguments, **more):
    with pytest.raises(ApiError) as caught:
        change(*arguments, **more)
    return caught.value.code


def test_token_has_the_times_of_the_settings():
    tokens = Tokens()
    token = tokens.create(renewers=["User:bob"])
    assert (token.issue_ms, token.expiry_ms, token.max_ms) == (NOW, NOW + 100, NOW + 1_000)
    assert (token.owner, token.requester, token.renewers) == ("User:alice", "User:alice", ("User:bob",))
    assert tokens.known == {token.token_id: token}
    assert tokens.cluster.delta.changed_delegation_tokens == {token.token_id}


@pytest.mark.parametrize(
    ("lifetime_ms", "max_ms", "expiry_ms"), [(0, 1000, 100), (40, 40, 40), (400, 400, 100), (4000, 1000, 100)]
)
def test_client_may_ask_for_a_shorter_life_only(lifetime_ms, max_ms, expiry_ms):
    token = Tokens().create(lifetime_ms=lifetime_ms)
    assert (token.max_ms - NOW, token.expiry_ms - NOW) == (max_ms, expiry_ms)


def test_life_ends_where_dates_end():
    terms = DelegationTerms(key="secret", max_lifetime_ms=2**63 - 1, expiry_time_ms=2**63 - 1)
    tokens = Tokens(terms)
    token = tokens.create()
    assert (token.max_ms, token.expiry_ms) == (LATEST_MS, LATEST_MS)
    assert tokens.renew(token) == LATEST_MS


@pytest.mark.parametrize("principals", [("Group:a",), ("User:a", "Group:b"), ("",)])
def test_owner_and_renewers_are_users(principals):
    assert code_of(check_principals, *principals) is ErrorCode.invalid_principal_type
    tokens = Tokens()
    owner, *renewers = principals
    assert code_of(tokens.create, owner=owner, renewers=renewers) is ErrorCode.invalid_principal_type
    assert not tokens.known


def test_renewal_counts_from_now_and_not_beyond_the_longest_life():
    tokens = Tokens()
    token = tokens.create(renewers=["User:bob"])
    tokens.now_ms += 90
    assert tokens.renew(token, principal="User:bob") == NOW + 190
    assert tokens.renew(token, 10) == NOW + 100, "a renewal may shorten it, as in Kafka"
    assert tokens.renew(token, 5000) == NOW + 190
    for _ in range(20):
        tokens.now_ms = tokens.known[token.token_id].expiry_ms
        tokens.renew(token)
    assert tokens.known[token.token_id].expiry_ms == token.max_ms


def test_expiry_is_moved_or_comes_at_once():
    tokens = Tokens()
    token = tokens.create()
    assert tokens.expire(token, 10) == NOW + 10
    assert tokens.expire(token, 5000) == token.max_ms
    tokens.now_ms += 1
    assert tokens.expire(token) == NOW + 1
    assert not tokens.known
    assert tokens.cluster.delta.changed_delegation_tokens == {token.token_id}


def test_others_may_not_change_it():
    tokens = Tokens()
    token = tokens.create(requester="User:root", renewers=["User:bob"])
    for principal in ("User:root", "User:carol", "Group:bob"):
        for change in (tokens.renew, tokens.expire):
            assert code_of(change, token, principal=principal) is ErrorCode.delegation_token_owner_mismatch
    assert tokens.known == {token.token_id: token}


def test_token_whose_time_is_over_can_only_be_removed():
    tokens = Tokens()
    token = tokens.create()
    tokens.now_ms = token.expiry_ms
    tokens.renew(token, 1)
    tokens.now_ms += 2
    assert code_of(tokens.renew, token, 1) is ErrorCode.delegation_token_expired
    assert code_of(tokens.expire, token, 1) is ErrorCode.delegation_token_expired
    tokens.expire(token)
    assert code_of(tokens.renew, token) is ErrorCode.delegation_token_not_found
    assert code_of(tokens.expire, token) is ErrorCode.delegation_token_not_found


def test_without_a_secret_nothing_is_done():
    tokens, off = Tokens(), Tokens(DelegationTerms())
    token = tokens.create()
    off.cluster = tokens.cluster
    disabled = ErrorCode.delegation_token_auth_disabled
    assert [code_of(change) for change in (off.create,)] == [disabled]
    assert [code_of(change, token) for change in (off.renew, off.expire)] == [disabled, disabled]


def test_either_secret_finds_a_token():
    tokens = Tokens()
    token = tokens.create()
    for terms in (
        DelegationTerms(key="next", accepted_key="secret"),
        DelegationTerms(key="secret", accepted_key="next"),
    ):
        other = Tokens(terms)
        other.cluster = tokens.cluster
        for hmac in (tokens.decisions.hmac(token), other.decisions.hmac(token)):
            other.cluster.decide(other.decisions.decide_renewal(other.cluster.image, hmac, "User:alice", 50, NOW))


def test_sweep_removes_what_is_expired_and_so_many_at_a_time():
    tokens = Tokens()
    living = tokens.create()
    expired = [tokens.create(lifetime_ms=1) for _ in range(REMOVALS_MAX + 3)]
    assert decide_sweep(tokens.cluster.image, NOW + 1).records == ()
    first = tokens.cluster.decide(decide_sweep(tokens.cluster.image, NOW + 2))
    assert list(first) == expired[:REMOVALS_MAX]
    assert len(tokens.cluster.decide(decide_sweep(tokens.cluster.image, NOW + 2))) == 3
    assert tokens.known == {living.token_id: living}
