"""Signatures of tokens: what is believed, and each attack that is not."""

import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esp.authentication.errors import AuthenticationError
from esp.authentication.oauthbearer import MESSAGE_BYTES_MAX, KnownToken, Unresolved
from esp.authentication.signing_keys import SigningKeys
from esp.authentication.token_judge import ALGORITHMS, KEYS_MAX, KEYS_TRIED_MAX, SignedTokenJudge, parse_key_set
from tests.models.access_tokens import NOW_MS, TERMS, Provider, json_text, new_key, text_of

PROVIDER = Provider()
FOREIGN = Provider(serial=1)
ALICE = KnownToken("alice", (), NOW_MS + 300_000)


def judge_by(data: bytes) -> SignedTokenJudge:
    keys = SigningKeys(1, 1, 1, 0)
    keys.begin(0)
    keys.on_fetched(parse_key_set(data), 0)
    return SignedTokenJudge(TERMS, keys, lambda: NOW_MS)


JUDGE = judge_by(PROVIDER.key_set())


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_token_of_each_algorithm_is_believed(algorithm):
    provider = Provider(algorithm)
    assert judge_by(provider.key_set()).judge(provider.token()) == ALICE


@pytest.mark.parametrize(
    "header", [{"kid": None}, {"typ": None}, {"nonce": "x"}, {"x5t": "y"}, {"jku": "https://evil.example/"}]
)
def test_other_parts_of_the_header_do_not_matter(header):
    assert JUDGE.judge(PROVIDER.sign(PROVIDER.claims(), header)) == ALICE


def swapped(token: str, claims: dict) -> str:
    """The token with other claims under its signature."""
    head, _, signature = token.split(".")
    return f"{head}.{json_text(claims)}.{signature}"


def with_texts(head: str = '{"alg":"RS256","kid":"key-1"}', payload: str = "") -> str:
    """A token whose parts are these, with the right signature."""
    return PROVIDER.sign_texts(text_of(head.encode()), text_of((payload or json.dumps(PROVIDER.claims())).encode()))


def own_key_in_header() -> str:
    """A token that brings the key along by which it is signed (CVE-2018-0114)."""
    return FOREIGN.sign(FOREIGN.claims(), {"jwk": FOREIGN.key.as_dict(private=False)})


def signature_of_zeros() -> str:
    """An ECDSA signature that a broken check takes for any text (CVE-2022-21449)."""
    provider = Provider("ES256")
    head, payload, _ = provider.token().split(".")
    return f"{head}.{payload}.{text_of(bytes(64))}"


def key_confusion(algorithm: str) -> str:
    """A token that names the RSA key with an algorithm of another kind."""
    other = Provider(algorithm)
    return other.sign(other.claims(), {"kid": PROVIDER.kid})


def reason_for(token: str) -> tuple[str, str]:
    """Why a token is not believed, and the text for its client."""
    try:
        answer = JUDGE.judge(token)
    except AuthenticationError as error:
        return error.reason, error.message
    assert isinstance(answer, Unresolved), answer
    return answer.reason, ""


@pytest.mark.parametrize(
    ("token", "words"),
    [
        (PROVIDER.unsigned(), "its algorithm is 'none'"),
        (PROVIDER.unsigned() + "x", "its algorithm is 'none'"),
        (PROVIDER.sign(PROVIDER.claims(), {"alg": "None"}), "its algorithm is 'None'"),
        (PROVIDER.sign(PROVIDER.claims(), {"alg": "nOnE"}), "its algorithm"),
        (PROVIDER.sign(PROVIDER.claims(), {"alg": ""}), "its algorithm"),
        (PROVIDER.sign(PROVIDER.claims(), {"alg": None}), "its algorithm is 'None'"),
        (PROVIDER.sign(PROVIDER.claims(), {"alg": ["RS256"]}), "its algorithm"),
        (PROVIDER.sign(PROVIDER.claims(), {"alg": "RS1"}), "its algorithm"),
        *((PROVIDER.signed_by_public_key(name), f"its algorithm is '{name}'") for name in ("HS256", "HS384", "HS512")),
        (PROVIDER.sign(PROVIDER.claims(), {"alg": "RS512"}), "signature is wrong"),
        (PROVIDER.sign(PROVIDER.claims(), {"alg": "PS256"}), "signature is wrong"),
        (FOREIGN.token(), "signature is wrong"),
        (own_key_in_header(), "signature is wrong"),
        (swapped(PROVIDER.token(), PROVIDER.claims(sub="root")), "signature is wrong"),
        (PROVIDER.token()[:-2], "signature is wrong"),
        (PROVIDER.token() + ".", "signature is wrong"),
        (PROVIDER.token() + "=", "signature is wrong"),
        (PROVIDER.token().rpartition(".")[0] + ".", "signature is wrong"),
        (PROVIDER.token().rpartition(".")[0], "signature is wrong"),
        (PROVIDER.sign(PROVIDER.claims(), {"crit": ["b64"], "b64": False}), "extensions of JWS"),
        (PROVIDER.sign(PROVIDER.claims(), {"crit": []}), "extensions of JWS"),
        (PROVIDER.sign(PROVIDER.claims(), {"kid": 5}), "name of its key is no text"),
        (PROVIDER.sign([1]), "holds no claims"),
        (PROVIDER.sign("alice"), "holds no claims"),
        (with_texts(payload=json.dumps(PROVIDER.claims())[:-1] + ',"sub":"root"}'), "or one twice"),
        (with_texts(payload=json.dumps(PROVIDER.claims())[:-1] + ',"x":[{"a":1,"a":2}]}'), "or one twice"),
        (with_texts(head='{"alg":"none","alg":"RS256","kid":"key-1"}'), "no signed token"),
        (
            with_texts(payload=json.dumps(PROVIDER.claims())[:-1] + ',"x":' + "[" * 20_000 + "]" * 20_000 + "}"),
            "no claims",
        ),
        (PROVIDER.token(iss="https://evil.example/"), "its issuer is"),
        (PROVIDER.token(aud="another"), "its audience is"),
        (PROVIDER.token(now_ms=NOW_MS - 310_000), "expired 10 s ago"),
        ("", "no signed token"),
        ("garbage", "no signed token"),
        ("a.b.c.d.e", "no signed token"),
        (f"{json_text('alg')}..", "no signed token"),
        (f"{json_text(['alg'])}..", "no signed token"),
        (f"{json_text(5)}..", "no signed token"),
        (f"{text_of(b'[' * 5000)}..", "no signed token"),
        (f"{text_of(b'{}')}..", "its algorithm is 'None'"),
        (f"{json_text({'alg': 'RS256', 'pad': 'x' * 8192})}..", "its algorithm is 'None'"),
        (f"{json_text({'alg': 'RS256'})}." + "A" * MESSAGE_BYTES_MAX + ".", "signature is wrong|no key"),
    ],
)
def test_attack_is_refused(token, words):
    reason, told = reason_for(token)
    assert not told
    assert any(word in reason for word in words.split("|")), reason


@pytest.mark.parametrize(
    "token",
    [
        FOREIGN.sign(FOREIGN.claims(), {"kid": "key-2"}),
        key_confusion("ES256"),
        key_confusion("EdDSA"),
        Provider("ES256").token(),
    ],
)
def test_key_that_the_provider_does_not_have_for_the_algorithm_is_asked_for(token):
    answer = JUDGE.judge(token)
    assert isinstance(answer, Unresolved)
    assert "does not have" in answer.reason


def test_token_without_the_name_of_its_key_is_held_against_all_and_then_asked_for():
    answer = JUDGE.judge(FOREIGN.sign(FOREIGN.claims(), {"kid": None}))
    assert answer == Unresolved("it is signed by no key of its provider")


def test_zeros_are_no_signature():
    judge = judge_by(Provider("ES256").key_set())
    with pytest.raises(AuthenticationError, match="signature is wrong"):
        judge.judge(signature_of_zeros())


def test_curve_of_another_algorithm_signs_nothing():
    provider = Provider("ES384", kid="es")
    judge = judge_by(json.dumps({"keys": [provider.jwk()]}).encode())
    token = Provider("ES256", kid="es").token()
    assert isinstance(judge.judge(token), Unresolved)


@given(
    st.text(st.characters(codec="ascii"), max_size=60) | st.tuples(st.integers(0, 600), st.characters(codec="ascii"))
)
def test_token_with_any_change_is_refused(change):
    token = PROVIDER.token()
    if isinstance(change, tuple):
        place, character = change
        place %= len(token)
        if character == token[place]:
            return
        change = token[:place] + character + token[place + 1 :]
    assert reason_for(change)


# The list of keys


def keys_of(*keys) -> list[str | None]:
    return [key.kid for key in parse_key_set(json.dumps({"keys": keys}).encode())]


GOOD = PROVIDER.jwk()


@pytest.mark.parametrize(
    "other",
    [
        PROVIDER.jwk(use="enc"),
        PROVIDER.jwk(key_ops=["encrypt"]),
        PROVIDER.jwk(key_ops="verify"),
        PROVIDER.jwk(kty="oct", k="c2VjcmV0"),
        PROVIDER.jwk(kty="new"),
        PROVIDER.jwk(n="AQAB"),
        PROVIDER.jwk(n="="),
        PROVIDER.jwk(n=5),
        PROVIDER.jwk(n=None),
        PROVIDER.jwk(e=text_of((1 << 200 | 1).to_bytes(26))),
        PROVIDER.jwk(e=""),
        PROVIDER.jwk(e="AA"),
        PROVIDER.jwk(e="Ag"),
        PROVIDER.jwk(e="A" * 100_000),
        PROVIDER.jwk(kid=5),
        PROVIDER.jwk(alg=5),
        {"kty": "EC", "crv": "P-256", "x": "AQ", "y": "AQ"},
        {"kty": "EC", "crv": "P-999", "x": "AQ", "y": "AQ"},
        {"kty": "EC", "crv": "P-256", "x": "A" * 3 + "Q" * 100_000, "y": "AQ"},
        {"kty": "EC", "crv": ["P-256"], "x": "AQ", "y": "AQ"},
        {"kty": "OKP", "crv": "Ed25519", "x": "AQ"},
        {"kty": "OKP", "crv": "Ed448", "x": "Q" * 100_000},
        {"kty": ["RSA"], "n": {}, "e": []},
        {"kty": "RSA"},
        {},
        "key",
        None,
    ],
)
def test_other_keys_of_a_list_are_left_out(other):
    assert keys_of(other, GOOD) == ["key-1"]
    with pytest.raises(ValueError, match="none of its 1 keys can sign"):
        keys_of(other)


def test_key_for_one_algorithm_is_for_no_other():
    judge = judge_by(json.dumps({"keys": [PROVIDER.jwk(alg="PS256")]}).encode())
    assert isinstance(judge.judge(PROVIDER.token()), Unresolved)


def test_private_parts_of_a_key_are_not_read():
    private = PROVIDER.key.as_dict(private=True)
    (key,) = parse_key_set(json.dumps({"keys": [private]}).encode())
    assert not key.key.is_private


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b"5", b'{"keys": 5}', b'{"keys": []}', b"{}", b"\xff", b"[" * 100_000, b'{"keys": {"a": 1}}'],
)
def test_bytes_that_are_no_list_of_keys_are_refused(data):
    with pytest.raises(ValueError, match=r"it is no|can sign"):
        parse_key_set(data)


def test_lists_of_keys_are_limited_and_so_are_the_trials():
    with pytest.raises(ValueError, match="more than"):
        keys_of(*[GOOD] * (KEYS_MAX + 1))
    many = [FOREIGN.jwk(kid=f"k{number}") for number in range(KEYS_TRIED_MAX)]
    judge = judge_by(json.dumps({"keys": [*many, GOOD]}).encode())
    assert judge.judge(PROVIDER.token()) == ALICE
    assert isinstance(judge.judge(PROVIDER.sign(PROVIDER.claims(), {"kid": None})), Unresolved)


def test_small_keys_are_left_out():
    program = """
import json, warnings
warnings.simplefilter("ignore")
from joserfc.jwk import RSAKey
from esp.authentication.token_judge import parse_key_set
warnings.simplefilter("error")
keys = [RSAKey.generate_key(2048)]
warnings.simplefilter("ignore")
keys.append(RSAKey.generate_key(1024))
warnings.simplefilter("error")
print(len(parse_key_set(json.dumps({"keys": [key.as_dict(private=False) for key in keys]}).encode())))
"""
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout == "1\n"


def test_keys_of_tests_are_not_the_same():
    assert new_key("RSA", 0) != new_key("RSA", 1)
