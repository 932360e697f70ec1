"""Log-ins by delegation tokens: the exchange, and the session that ends with the token."""

import pytest

from esp.authentication.conversation import Conversation, Reply, Stage
from esp.authentication.credentials import CredentialLookup
from esp.authentication.delegation_tokens import KEPT_MAX, NoTokens, TokenCredentials, UsableToken
from esp.authentication.errors import AuthenticationError
from esp.authentication.exchange import Challenge, NewTokenWait, SlowCheck, Success
from esp.authentication.scram import ScramClient, ScramExchange
from esp.model.sasl import SaslMechanism, SaslPolicy
from esp.model.scram import MIN_ITERATIONS
from tests.unit.authentication.logins import SHA_256, SHA_512, Users

TOKEN = UsableToken("alice", ("the password", "the other password"), 5_000)


class Tokens:
    """Tokens by id; how often each was looked for is counted."""

    def __init__(self, **tokens):
        self.tokens = tokens

    def find(self, token_id, /):
        return self.tokens.get(token_id)


def lookup_of(tokens):
    users = Users(("token", SHA_256, "the password"), ("alice", SHA_256, "alice's"))
    return CredentialLookup(users, b"secret", TokenCredentials(tokens, b"secret of the nodes"))


def played(lookup, mechanism=SHA_256, name="token", password="the password", *, is_token=True, between=lambda: None):
    """A log-in: its success, and whether it took a slow check."""
    client = ScramClient(mechanism, name, password, "client", is_token=is_token)
    server = ScramExchange(mechanism, lookup, lambda: "server")
    challenge = server.respond(client.first_message())
    assert isinstance(challenge, Challenge)
    proof = client.on_server_first(challenge.data)
    between()
    outcome = server.respond(proof)
    is_slow = isinstance(outcome, SlowCheck)
    outcome = concluded(outcome)
    client.on_server_final(outcome.data)
    return outcome, is_slow


def concluded(outcome):
    """The end of an exchange whose token does not come while it is waited for."""
    while not isinstance(outcome, Success):
        is_right = isinstance(outcome, SlowCheck) and outcome.is_right()
        assert is_right or not outcome.is_known()
        outcome = outcome.conclude(is_right)
    return outcome


def asked(tokens, token_id="token", password="the password"):
    """The outcome of the last message of a log-in by a token."""
    client = ScramClient(SHA_256, token_id, password, "client", is_token=True)
    server = ScramExchange(SHA_256, lookup_of(tokens), lambda: "server")
    return server.respond(client.on_server_first(server.respond(client.first_message()).data))


@pytest.mark.parametrize("mechanism", [SHA_256, SHA_512])
def test_bearer_of_a_token_is_its_owner_for_as_long_as_it_counts(mechanism):
    success, _ = played(lookup_of(Tokens(token=TOKEN)), mechanism)
    assert (success.user, success.lifetime_ms, success.is_by_token) == ("alice", 5_000, True)


def test_passwords_are_hashed_off_the_loop_and_once():
    lookup = lookup_of(Tokens(token=TOKEN))
    assert [played(lookup)[1], played(lookup)[1], played(lookup, SHA_512)[1]] == [True, False, True]


def test_password_of_either_secret_is_right():
    for name in TOKEN.passwords:
        lookup = lookup_of(Tokens(token=TOKEN))
        for _ in range(2):
            assert played(lookup, password=name)[0].user == "alice"


@pytest.mark.parametrize("tokens", [Tokens(token=TOKEN), Tokens(), NoTokens()])
@pytest.mark.parametrize("password", ["wrong", "alice's", ""])
def test_wrong_password_and_unknown_token_fail_alike(tokens, password):
    lookup = lookup_of(tokens)
    for _ in range(2):
        with pytest.raises(AuthenticationError, match="wrong password, or no such token") as failed:
            played(lookup, password=password)
        assert failed.value.message == ""


def test_salt_does_not_tell_whether_there_is_a_token():
    def challenge(lookup, name):
        client = ScramClient(SHA_256, name, "x", "client", is_token=True)
        return ScramExchange(SHA_256, lookup, lambda: "server").respond(client.first_message()).data

    assert challenge(lookup_of(Tokens(token=TOKEN)), "token") == challenge(lookup_of(Tokens()), "token")
    assert challenge(lookup_of(Tokens()), "token") != challenge(lookup_of(Tokens()), "other")
    assert f"i={MIN_ITERATIONS}".encode() in challenge(lookup_of(Tokens()), "token")


def test_tokens_and_users_are_not_taken_for_one_another():
    lookup = lookup_of(Tokens(token=TOKEN))
    assert played(lookup, is_token=False)[0] == Success("token", played(lookup, is_token=False)[0].data)
    with pytest.raises(AuthenticationError):
        played(lookup, name="alice", password="alice's")
    with pytest.raises(AuthenticationError):
        played(lookup, password="the other password", is_token=False)


@pytest.mark.parametrize("is_known", [False, True])
def test_token_that_ends_between_the_messages_lets_nobody_in(is_known):
    tokens = Tokens(token=TOKEN)
    lookup = lookup_of(tokens)
    if is_known:
        played(lookup)
    with pytest.raises(AuthenticationError):
        played(lookup, between=tokens.tokens.clear)


def test_token_that_ends_while_its_password_is_hashed_lets_nobody_in():
    tokens = Tokens(token=TOKEN)
    client = ScramClient(SHA_256, "token", "the password", "client", is_token=True)
    server = ScramExchange(SHA_256, lookup_of(tokens), lambda: "server")
    check = server.respond(client.on_server_first(server.respond(client.first_message()).data))
    is_right = check.is_right()
    tokens.tokens.clear()
    wait = check.conclude(is_right)
    with pytest.raises(AuthenticationError):
        wait.conclude(False)


def test_token_that_comes_while_it_is_waited_for_lets_in():
    """It was made at another node a moment ago."""
    tokens = Tokens()
    wait = asked(tokens)
    assert isinstance(wait, NewTokenWait)
    assert not wait.is_known()
    tokens.tokens["token"] = TOKEN
    assert wait.is_known()
    assert concluded(wait.conclude(True)).user == "alice"


def test_log_in_that_fails_waits_once_whether_or_not_there_is_the_token():
    for tokens in (Tokens(token=TOKEN), Tokens()):
        for _ in range(2):
            outcome = asked(tokens, password="wrong")
            if isinstance(outcome, SlowCheck):
                outcome = outcome.conclude(outcome.is_right())
            assert isinstance(outcome, NewTokenWait)
            assert not outcome.is_known()
            with pytest.raises(AuthenticationError):
                concluded(outcome.conclude(False))


def test_wrong_password_of_a_token_that_comes_meanwhile_lets_nobody_in():
    tokens = Tokens()
    wait = asked(tokens, password="wrong")
    tokens.tokens["token"] = TOKEN
    with pytest.raises(AuthenticationError):
        concluded(wait.conclude(wait.is_known()))


def test_credentials_of_the_token_that_was_used_least_recently_are_forgotten():
    kept = TokenCredentials(NoTokens(), b"")
    for number in range(KEPT_MAX + 1):
        kept.keep(str(number), SHA_256, ())
        assert kept.kept("0", SHA_256) == ()
    assert kept.kept("1", SHA_256) is None


def test_no_text_shows_a_password():
    assert "password" not in repr(TOKEN).replace("passwords", "")


def log_in(conversation, token_id="token"):
    conversation.on_handshake(1, "SCRAM-SHA-256")
    client = ScramClient(SHA_256, token_id, "the password", "client", is_token=True)
    proof = client.on_server_first(conversation.on_message(client.first_message()).data)
    reply = conversation.on_message(proof)
    while not isinstance(reply, Reply):
        reply = conversation.on_checked(reply, isinstance(reply, SlowCheck) and reply.is_right())
    return reply


@pytest.mark.parametrize(("limit_ms", "lifetime_ms"), [(0, 5_000), (3_000, 3_000), (9_000, 5_000)])
def test_session_ends_with_the_token_or_sooner(limit_ms, lifetime_ms):
    policy = SaslPolicy("L", tuple(SaslMechanism), {}, {SaslMechanism.SCRAM_SHA_256: limit_ms})
    conversation = Conversation(policy, lookup_of(Tokens(token=TOKEN)), lambda: "server")
    reply = log_in(conversation)
    assert (reply.is_success, reply.lifetime_ms, conversation.user) == (True, lifetime_ms, "alice")
    assert conversation.is_by_token


def test_log_in_is_renewed_by_another_token_of_the_owner_or_by_the_password():
    tokens = Tokens(
        token=TOKEN, other=UsableToken("alice", TOKEN.passwords, 7_000), bobs=UsableToken("bob", TOKEN.passwords, 7_000)
    )
    policy = SaslPolicy("L", tuple(SaslMechanism), {})
    conversation = Conversation(policy, lookup_of(tokens), lambda: "server")
    assert log_in(conversation).lifetime_ms == 5_000
    assert log_in(conversation, "other").lifetime_ms == 7_000
    conversation.on_handshake(1, "SCRAM-SHA-256")
    client = ScramClient(SHA_256, "alice", "alice's", "client")
    proof = client.on_server_first(conversation.on_message(client.first_message()).data)
    assert conversation.on_message(proof).is_success
    assert not conversation.is_by_token
    assert conversation.on_handshake(1, "SCRAM-SHA-256").code != 0, "this log-in has no end"
    other = Conversation(policy, lookup_of(tokens), lambda: "server")
    log_in(other)
    assert "Cannot change principals" in log_in(other, "bobs").message
    assert other.stage is Stage.ENDED
