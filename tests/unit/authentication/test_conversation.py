"""The table of states, cell by cell, and the answers of Kafka 4.3.1 to each kind of message."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esp.authentication.conversation import Conversation, Ending, Reply, Stage
from esp.authentication.errors import AuthenticationError, UnexpectedMessageError
from esp.authentication.exchange import Challenge, KeyWait, NewTokenWait, Outcome, SlowCheck, Success
from esp.authentication.scram import ScramClient
from esp.broker.authentication.answers import authenticate_response
from esp.model.errors import ErrorCode
from esp.model.sasl import BY_PASSWORD, SaslMechanism, SaslPolicy
from esp.protocol.messages import encode_response
from esp.protocol.registry import ApiKey
from tests.unit.authentication.logins import SHA_256, SHA_512, Users, lookup_of

PLAIN, SCRAM_256, SCRAM_512 = BY_PASSWORD
LOGIN = b"\0alice\0alice-secret"
USERS = Users(("alice", SHA_256, "alice-secret"), ("alice", SHA_512, "alice-secret"), ("bob", SHA_256, "bob-secret"))


def begun(*, lifetime_ms: int = 0, mechanisms=BY_PASSWORD, users=None) -> Conversation:
    policy = SaslPolicy(
        "OUT",
        mechanisms,
        plain_users={"alice": "alice-secret", "bob": "bob-secret"} if users is None else None,
        max_reauth_ms=dict.fromkeys(BY_PASSWORD, lifetime_ms),
    )
    return Conversation(policy, lookup_of(users or USERS), lambda: "server-part")


def versions_told(**options) -> Conversation:
    conversation = begun(**options)
    assert conversation.on_api_versions(is_served=True) is ErrorCode.none
    return conversation


def speaking(mechanism: SaslMechanism = PLAIN, version: int = 1, **options) -> Conversation:
    conversation = begun(**options)
    conversation.on_handshake(version, mechanism.value)
    return conversation


def known(**options) -> Conversation:
    conversation = speaking(**options)
    conversation.on_message(LOGIN)
    return conversation


def ended(**options) -> Conversation:
    conversation = speaking(**options)
    conversation.on_message(b"")
    return conversation


@pytest.mark.parametrize(
    ("make", "stage"),
    [
        (begun, Stage.BEGUN),
        (versions_told, Stage.VERSIONS_TOLD),
        (speaking, Stage.SPEAKING),
        (known, Stage.KNOWN),
        (ended, Stage.ENDED),
    ],
)
def test_stages(make: Callable[[], Conversation], stage: Stage) -> None:
    assert make().stage is stage


# The whole table


def asked_in_vain(**options) -> Conversation:
    conversation = begun(**options)
    assert conversation.on_api_versions(is_served=False) is ErrorCode.none
    return conversation


def renewable() -> Conversation:
    return known(lifetime_ms=3000)


def renewing() -> Conversation:
    conversation = renewable()
    assert conversation.on_handshake(1, "PLAIN") == Reply()
    return conversation


EVENTS: dict[str, Callable[[Conversation], ErrorCode]] = {
    "versions": lambda asked: asked.on_api_versions(is_served=True),
    "unserved versions": lambda asked: asked.on_api_versions(is_served=False),
    "handshake": lambda asked: asked.on_handshake(1, "PLAIN").code,
    "handshake 0": lambda asked: asked.on_handshake(0, "PLAIN").code,
    "other mechanism": lambda asked: asked.on_handshake(1, "SCRAM-SHA-256").code,
    "no mechanism": lambda asked: asked.on_handshake(1, "GSSAPI").code,
    "right password": lambda asked: asked.on_message(LOGIN).code,
    "wrong password": lambda asked: asked.on_message(b"\0alice\0wrong").code,
    "unreadable": lambda asked: asked.on_malformed().code,
}
"""What a client may send, but for other APIs; each returns the code of the answer, or raises UnexpectedMessageError if there is none."""

OF_THE_SESSION = ("versions", "unserved versions")
"""Events that a client's session sees to once the client is known."""

Cell = tuple[ErrorCode | None, Stage]
"""The code of the answer, None if there is none, and the next state."""

SAID: dict[str, Cell] = {
    "handshake": (ErrorCode.none, Stage.SPEAKING),
    "handshake 0": (ErrorCode.none, Stage.SPEAKING),
    "other mechanism": (ErrorCode.none, Stage.SPEAKING),
    "no mechanism": (ErrorCode.unsupported_sasl_mechanism, Stage.ENDED),
}
"""The handshakes of a client that has not begun a log-in."""

SPOKEN: dict[str, Cell] = {
    "versions": (ErrorCode.illegal_sasl_state, Stage.ENDED),
    "unserved versions": (ErrorCode.illegal_sasl_state, Stage.ENDED),
    "handshake": (ErrorCode.illegal_sasl_state, Stage.ENDED),
    "handshake 0": (ErrorCode.illegal_sasl_state, Stage.ENDED),
    "other mechanism": (ErrorCode.illegal_sasl_state, Stage.ENDED),
    "no mechanism": (ErrorCode.illegal_sasl_state, Stage.ENDED),
    "right password": (ErrorCode.none, Stage.KNOWN),
    "wrong password": (ErrorCode.sasl_authentication_failed, Stage.ENDED),
    "unreadable": (ErrorCode.sasl_authentication_failed, Stage.ENDED),
}

TOLD_NOT_NOW: Cell = (ErrorCode.illegal_sasl_state, Stage.KNOWN)
MESSAGES_OF_THE_KNOWN: dict[str, Cell] = {"right password": TOLD_NOT_NOW, "wrong password": TOLD_NOT_NOW}

TABLE: dict[Callable[[], Conversation], dict[str, Cell]] = {
    begun: SAID
    | {
        "versions": (ErrorCode.none, Stage.VERSIONS_TOLD),
        "unserved versions": (ErrorCode.none, Stage.BEGUN),
    },
    asked_in_vain: SAID | {"versions": (ErrorCode.none, Stage.VERSIONS_TOLD)},
    versions_told: SAID,
    speaking: SPOKEN,
    renewing: SPOKEN,
    known: MESSAGES_OF_THE_KNOWN
    | dict.fromkeys(("handshake", "handshake 0", "other mechanism", "no mechanism"), TOLD_NOT_NOW),
    renewable: MESSAGES_OF_THE_KNOWN | {"handshake": (ErrorCode.none, Stage.SPEAKING), "handshake 0": TOLD_NOT_NOW},
    ended: {},
}
"""The cells in which there is an answer; in all others the connection ends without one."""

CELLS = [
    pytest.param(make, event, id=f"{make.__name__}, {event}")
    for make in TABLE
    for event in EVENTS
    if not (make in (known, renewable) and event in OF_THE_SESSION)
]


@pytest.mark.parametrize(("make", "event"), CELLS)
def test_each_message_in_each_state_has_the_answer_and_the_next_state_of_the_table(
    make: Callable[[], Conversation], event: str
) -> None:
    conversation = make()
    code, stage = TABLE[make].get(event, (None, Stage.ENDED))
    if code is None:
        with pytest.raises(UnexpectedMessageError):
            EVENTS[event](conversation)
    else:
        assert EVENTS[event](conversation) is code
    assert conversation.stage is stage


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("version", [0, 1])
def test_a_connection_that_has_ended_answers_nothing_more(version: int, event: str) -> None:
    conversation = speaking(version=version)
    conversation.on_other_api("Metadata")
    with pytest.raises(UnexpectedMessageError):
        EVENTS[event](conversation)
    assert conversation.user is None


# ApiVersions


def test_versions_are_asked_for_once() -> None:
    conversation = versions_told()
    with pytest.raises(UnexpectedMessageError, match="second ApiVersions"):
        conversation.on_api_versions(is_served=True)
    assert conversation.stage is Stage.ENDED


def test_versions_are_asked_for_again_after_one_that_is_not_served() -> None:
    conversation = begun()
    assert conversation.on_api_versions(is_served=False) is ErrorCode.none
    assert conversation.stage is Stage.BEGUN
    assert conversation.on_api_versions(is_served=True) is ErrorCode.none
    assert conversation.stage is Stage.VERSIONS_TOLD


def test_versions_are_not_asked_for_again_and_again() -> None:
    conversation = begun()
    conversation.on_api_versions(is_served=False)
    with pytest.raises(UnexpectedMessageError):
        conversation.on_api_versions(is_served=False)


@pytest.mark.parametrize("is_served", [True, False])
def test_versions_in_the_middle_of_a_log_in_are_refused(is_served: bool) -> None:
    conversation = speaking()
    assert conversation.on_api_versions(is_served=is_served) is ErrorCode.illegal_sasl_state
    assert conversation.stage is Stage.ENDED
    with pytest.raises(UnexpectedMessageError):
        conversation.on_api_versions(is_served=True)


# Other APIs


@pytest.mark.parametrize("make", [begun, versions_told, speaking, ended])
def test_other_apis_end_the_connection(make: Callable[[], Conversation]) -> None:
    conversation = make()
    assert "Metadata" in str(conversation.on_other_api("Metadata"))
    assert conversation.stage is Stage.ENDED


# SaslHandshake


@pytest.mark.parametrize("make", [begun, versions_told])
@pytest.mark.parametrize("mechanism", BY_PASSWORD)
def test_handshake_chooses_a_mechanism(make: Callable[[], Conversation], mechanism: SaslMechanism) -> None:
    conversation = make()
    assert conversation.on_handshake(1, mechanism.value) == Reply()
    assert conversation.stage is Stage.SPEAKING
    assert conversation.mechanism is mechanism
    assert not conversation.speaks_tokens


@pytest.mark.parametrize("name", ["GSSAPI", "OAUTHBEARER", "plain", "", "x" * 10_000])
def test_handshake_with_a_mechanism_that_is_not_enabled_ends_the_connection_with_the_list(name: str) -> None:
    conversation = begun(mechanisms=(SCRAM_256,))
    reply = conversation.on_handshake(1, name)
    assert (reply.code, reply.ending) == (ErrorCode.unsupported_sasl_mechanism, Ending.AT_ONCE)
    assert conversation.mechanisms == ("SCRAM-SHA-256",)
    assert len(reply.reason) < 200
    assert conversation.stage is Stage.ENDED


def test_second_handshake_is_refused() -> None:
    conversation = speaking()
    reply = conversation.on_handshake(1, "PLAIN")
    assert (reply.code, reply.ending) == (ErrorCode.illegal_sasl_state, Ending.AT_ONCE)
    assert conversation.stage is Stage.ENDED


def test_handshake_after_a_failed_log_in_ends_the_connection() -> None:
    with pytest.raises(UnexpectedMessageError):
        ended().on_handshake(1, "PLAIN")


# SaslAuthenticate


def test_log_in_by_plain() -> None:
    conversation = speaking()
    assert conversation.on_message(LOGIN) == Reply(is_success=True)
    assert (conversation.stage, conversation.user) == (Stage.KNOWN, "alice")


@pytest.mark.parametrize("mechanism", [SCRAM_256, SCRAM_512])
def test_log_in_by_scram(mechanism: SaslMechanism) -> None:
    conversation = speaking(mechanism, lifetime_ms=3000)
    client = ScramClient(mechanism.scram, "alice", "alice-secret", "abc")
    challenge = conversation.on_message(client.first_message())
    assert (challenge.code, challenge.lifetime_ms, challenge.ending) == (ErrorCode.none, 0, Ending.NONE)
    assert conversation.stage is Stage.SPEAKING
    success = conversation.on_message(client.on_server_first(challenge.data))
    client.on_server_final(success.data)
    assert success.lifetime_ms == 3000
    assert conversation.user == "alice"


@pytest.mark.parametrize("mechanism", BY_PASSWORD)
@given(message=st.binary(max_size=300))
def test_bytes_that_are_no_message_are_answered_as_a_failure_after_the_delay(
    mechanism: SaslMechanism, message: bytes
) -> None:
    conversation = speaking(mechanism)
    reply = conversation.on_message(message)
    assert isinstance(reply, Reply)
    assert reply.code is ErrorCode.sasl_authentication_failed
    assert reply.ending in (Ending.AFTER_DELAY, Ending.SOON)  # of PLAIN, it may be a password by chance
    assert reply.message
    assert reply.reason
    assert conversation.stage is Stage.ENDED


@pytest.mark.parametrize(
    ("mechanism", "message", "ending"),
    [
        (SaslMechanism.PLAIN, b"alice", Ending.SOON),
        (SaslMechanism.PLAIN, b"\0alice\0", Ending.SOON),
        (SaslMechanism.PLAIN, b"\0alice\0\xff", Ending.SOON),
        (SaslMechanism.PLAIN, b"\0alice\0wrong", Ending.AFTER_DELAY),
        (SCRAM_256, b"", Ending.SOON),
        (SCRAM_256, b"p=tls-unique,,n=alice,r=abc", Ending.SOON),
        (SCRAM_256, b"n,a=bob,n=alice,r=abc", Ending.AFTER_DELAY),
    ],
)
def test_a_malformed_message_is_told_sooner_than_a_guess(
    mechanism: SaslMechanism, message: bytes, ending: Ending
) -> None:
    reply = speaking(mechanism).on_message(message)
    assert isinstance(reply, Reply)
    assert (reply.code, reply.ending) == (ErrorCode.sasl_authentication_failed, ending)


def test_request_that_cannot_be_read_is_answered_as_a_failure() -> None:
    reply = speaking(SCRAM_256).on_malformed()
    assert (reply.code, reply.ending) == (ErrorCode.sasl_authentication_failed, Ending.SOON)


def test_text_of_scram_s_failures_is_kafka_s_whatever_the_fault() -> None:
    texts = set()
    for user, password in (("alice", "wrong"), ("nobody", "alice-secret")):
        conversation = speaking(SCRAM_256)
        client = ScramClient(SHA_256, user, password, "abc")
        challenge = conversation.on_message(client.first_message())
        assert challenge.code is ErrorCode.none, "the first message does not tell whether there is such a user"
        texts.add(conversation.on_message(client.on_server_first(challenge.data)).message)
    texts.add(speaking(SCRAM_256).on_message(b"garbage").message)
    assert texts == {
        "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256"
    }


def test_password_of_plain_may_be_checked_off_the_loop() -> None:
    for password, code in (("alice-secret", ErrorCode.none), ("wrong", ErrorCode.sasl_authentication_failed)):
        conversation = speaking(users=USERS)
        check = conversation.on_message(f"\0alice\0{password}".encode())
        assert isinstance(check, SlowCheck)
        assert conversation.user is None
        assert conversation.on_checked(check, check.is_right()).code is code


def test_a_check_may_ask_for_another_one() -> None:
    """A delegation token that was just made is waited for, and its password is hashed then."""
    hashed = SlowCheck(lambda: True, lambda is_right: Success("alice", is_by_token=is_right))
    wait = NewTokenWait(lambda: True, lambda _is_known: hashed)
    conversation = by_token(wait)
    assert conversation.on_message(b"") is wait
    assert conversation.on_checked(wait, is_right=True) is hashed
    with pytest.raises(UnexpectedMessageError):
        conversation.on_message(b"")
    conversation = by_token(wait)
    conversation.on_message(b"")
    conversation.on_checked(wait, is_right=True)
    reply = conversation.on_checked(hashed, is_right=True)
    assert isinstance(reply, Reply)
    assert reply.is_success
    assert conversation.is_by_token


@pytest.mark.parametrize("event", ["versions", "handshake", "unreadable"])
def test_a_right_password_counts_no_more_when_its_client_has_gone_on_meanwhile(event: str) -> None:
    conversation = speaking(users=USERS)
    check = conversation.on_message(LOGIN)
    assert isinstance(check, SlowCheck)
    EVENTS[event](conversation)
    reply = conversation.on_checked(check, is_right=True)
    assert isinstance(reply, Reply)
    assert reply.code is ErrorCode.sasl_authentication_failed
    assert (conversation.stage, conversation.user) == (Stage.ENDED, None)


def test_nothing_is_taken_while_a_password_is_checked() -> None:
    conversation = speaking(users=USERS)
    check = conversation.on_message(LOGIN)
    with pytest.raises(UnexpectedMessageError):
        conversation.on_message(LOGIN)
    assert conversation.on_checked(check, is_right=True).code is ErrorCode.sasl_authentication_failed
    assert conversation.user is None


# Tokens


def test_after_a_handshake_of_version_0_tokens_follow_until_the_client_is_known() -> None:
    conversation = speaking(version=0)
    assert conversation.speaks_tokens
    conversation.on_message(LOGIN)
    assert conversation.stage is Stage.KNOWN
    assert not conversation.speaks_tokens


# Of a client that is known


def test_message_of_a_known_client_is_refused_and_the_connection_goes_on() -> None:
    for conversation in (known(), known(lifetime_ms=3000)):
        reply = conversation.on_message(LOGIN)
        assert (reply.code, reply.ending) == (ErrorCode.illegal_sasl_state, Ending.NONE)
        assert reply.message == "SaslAuthenticate request received after successful authentication"


@pytest.mark.parametrize(("lifetime_ms", "version"), [(0, 1), (3000, 0)])
def test_handshake_of_a_known_client_is_refused_where_log_ins_count_for_ever_or_tokens_would_follow(
    lifetime_ms: int, version: int
) -> None:
    conversation = known(lifetime_ms=lifetime_ms)
    assert conversation.on_handshake(version, "PLAIN") == Reply(ErrorCode.illegal_sasl_state)
    assert conversation.stage is Stage.KNOWN


def test_log_in_is_renewed_by_the_same_user_and_mechanism() -> None:
    conversation = known(lifetime_ms=3000)
    for _ in range(3):
        assert conversation.on_handshake(1, "PLAIN") == Reply()
        assert conversation.on_message(LOGIN) == Reply(lifetime_ms=3000, is_success=True)


def test_renewal_that_cannot_be_read_is_a_failure_with_kafka_s_text() -> None:
    conversation = known(lifetime_ms=3000)
    conversation.on_handshake(1, "PLAIN")
    reply = conversation.on_malformed()
    assert (reply.code, reply.ending) == (ErrorCode.sasl_authentication_failed, Ending.SOON)
    text = "Authentication failed during re-authentication due to invalid credentials with SASL mechanism PLAIN"
    assert reply.message == text


def test_log_in_is_not_renewed_by_another_user() -> None:
    conversation = known(lifetime_ms=3000)
    conversation.on_handshake(1, "PLAIN")
    reply = conversation.on_message(b"\0bob\0bob-secret")
    assert (reply.code, reply.ending) == (ErrorCode.sasl_authentication_failed, Ending.AFTER_DELAY)
    assert reply.message == "Cannot change principals during re-authentication from User.alice: User.bob"
    assert conversation.user == "alice"


def test_log_in_is_not_renewed_by_another_mechanism() -> None:
    conversation = known(lifetime_ms=3000)
    with pytest.raises(UnexpectedMessageError, match="re-authentication by 'SCRAM-SHA-256' after a log-in by PLAIN"):
        conversation.on_handshake(1, "SCRAM-SHA-256")


# Access tokens


class Exchanges:
    """Begins exchanges of OAUTHBEARER whose outcomes are given."""

    def __init__(self, *outcomes: Outcome | AuthenticationError) -> None:
        self._outcomes = list(outcomes)

    def __call__(self) -> "Exchanges":
        return self

    def respond(self, message: bytes) -> Outcome:
        outcome = self._outcomes.pop(0)
        if isinstance(outcome, AuthenticationError):
            raise outcome
        return outcome


def by_token(*outcomes: Outcome | AuthenticationError, max_reauth_ms: int = 0) -> Conversation:
    mechanism = SaslMechanism.OAUTHBEARER
    policy = SaslPolicy("OUT", (mechanism, PLAIN), {}, {mechanism: max_reauth_ms})
    made = Conversation(policy, lookup_of(USERS), lambda: "server-part", Exchanges(*outcomes))
    assert made.on_handshake(1, "OAUTHBEARER").code is ErrorCode.none
    return made


TEN_YEARS_MS = 315_360_000_000


@pytest.mark.parametrize(
    ("of_token_ms", "max_reauth_ms", "lifetime_ms"),
    [(5000, 0, 5000), (5000, 3000, 3000), (5000, 9000, 5000), (TEN_YEARS_MS, 3000, 3000), (0, 0, 0), (0, 3000, 3000)],
)
def test_log_in_ends_with_the_token_and_with_the_time_of_the_settings(
    of_token_ms: int, max_reauth_ms: int, lifetime_ms: int
) -> None:
    conversation = by_token(Success("alice", lifetime_ms=of_token_ms), max_reauth_ms=max_reauth_ms)
    reply = conversation.on_message(b"")
    assert isinstance(reply, Reply)
    assert (reply.lifetime_ms, reply.is_success) == (lifetime_ms, True)
    again = conversation.on_handshake(1, "OAUTHBEARER").code
    assert again is (ErrorCode.none if lifetime_ms else ErrorCode.illegal_sasl_state)


def test_refused_token_is_a_challenge_and_then_the_failure() -> None:
    conversation = by_token(Challenge(b"no"), AuthenticationError("reason", "no"))
    assert conversation.on_message(b"") == Reply(data=b"no")
    assert conversation.stage is Stage.SPEAKING
    assert conversation.on_message(b"\x01") == Reply(
        ErrorCode.sasl_authentication_failed, "no", ending=Ending.AFTER_DELAY, reason="reason"
    )


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_failure_that_quotes_a_long_name_has_room_in_an_answer_of_every_version(version: int) -> None:
    text = "the client asks to act as " + "x" * 40_000
    reply = by_token(AuthenticationError("reason", text)).on_message(b"")
    assert isinstance(reply, Reply)
    frame = encode_response(ApiKey.SASL_AUTHENTICATE, version, 1, authenticate_response(reply))
    assert b"the client asks to act as xxx" in frame


@pytest.mark.parametrize("is_fetched", [True, False])
def test_keys_are_waited_for(is_fetched: bool) -> None:
    wait = KeyWait(lambda is_right: Success("alice", groups=("staff",)) if is_right else Challenge(b"no"))
    conversation = by_token(wait)
    check = conversation.on_message(b"")
    assert check is wait
    hasty = by_token(wait)
    hasty.on_message(b"")
    with pytest.raises(UnexpectedMessageError):
        hasty.on_message(b"")
    reply = conversation.on_checked(wait, is_fetched)
    assert reply.is_success is is_fetched
    assert conversation.groups == (("staff",) if is_fetched else ())


def test_renewal_brings_other_groups_and_no_other_user() -> None:
    tokens = [Success("alice", groups=groups, lifetime_ms=9) for groups in (("a", "b"), ("c",))]
    conversation = by_token(*tokens, Success("bob", lifetime_ms=9))
    for groups in (("a", "b"), ("c",)):
        conversation.on_message(b"")
        assert conversation.groups == groups
        assert conversation.on_handshake(1, "OAUTHBEARER").code is ErrorCode.none
    reply = conversation.on_message(b"")
    assert isinstance(reply, Reply)
    assert reply.message == "Cannot change principals during re-authentication from User.alice: User.bob"
    assert (conversation.user, conversation.groups) == ("alice", ("c",))
