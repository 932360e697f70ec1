import base64
import hashlib
import hmac

from hypothesis import given
from hypothesis import strategies as st

from esp.model.delegation_passwords import TokensByHmac, salts_secret, token_hmac, token_hmacs, token_passwords
from esp.model.delegation_terms import DelegationTerms
from esp.model.delegation_token import DelegationToken

TERMS = DelegationTerms(key="now", accepted_key="before")


def made_by(key, token_id):
    return hmac.new(key.encode(), token_id.encode(), hashlib.sha512).digest()


def tokens(*ids):
    return {each: DelegationToken(each, "User:a", "User:a", (), 0, 1, 1) for each in ids}


def test_hmac_is_kafka_s():
    assert token_hmac(TERMS, "id") == made_by("now", "id")
    assert token_passwords(DelegationTerms(key="now"), "id") == (base64.b64encode(made_by("now", "id")).decode(),)


def test_a_second_secret_makes_a_second_hmac_and_is_never_the_one_that_is_told():
    assert token_hmacs(TERMS, "id") == (made_by("now", "id"), made_by("before", "id"))
    assert token_hmacs(DelegationTerms(key="now", accepted_key="now"), "id") == (made_by("now", "id"),)


def test_without_a_secret_there_is_no_hmac():
    assert token_hmacs(DelegationTerms(accepted_key="before"), "id") == ()
    assert not DelegationTerms(accepted_key="before").is_enabled


def test_no_text_shows_a_secret():
    assert "now" not in repr(TERMS)
    assert "before" not in repr(TERMS)
    assert salts_secret(TERMS) == salts_secret(DelegationTerms(key="now"))


@given(st.lists(st.sets(st.sampled_from("abcde")), max_size=6))
def test_tokens_are_found_by_each_of_their_hmacs_as_they_come_and_go(steps):
    found = TokensByHmac(TERMS)
    for ids in steps:
        known = tokens(*ids)
        for each in "abcde":
            for key in ("now", "before"):
                assert found.find(known, made_by(key, each)) is known.get(each)
        assert found.find(known, b"") is None
