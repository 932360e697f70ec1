"""Keys of SCRAM, by the examples of RFC 5802's successors."""

import base64
import hashlib
import hmac

import pytest

from esp.model.scram import ScramMechanism
from esp.model.scram_keys import client_key, credential_of, make_credential, salted_password, stored_key

SHA_256, SHA_512 = ScramMechanism


def test_the_credential_checks_the_exchange_of_rfc_7677():
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    first = "n=user,r=rOprNGfwEbeRWgbNEkqO"
    answer = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    final = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    signed = f"{first},{answer},{final}".encode()
    proof = base64.b64decode("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")

    credential = make_credential(SHA_256, "pencil", salt, 4096)
    signature = hmac.digest(credential.stored_key, signed, "sha256")
    key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
    assert hashlib.sha256(key).digest() == credential.stored_key
    assert base64.b64encode(hmac.digest(credential.server_key, signed, "sha256")) == (
        b"6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    )


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_all_keys_come_from_the_salted_password(mechanism):
    salted = salted_password(mechanism, "pässword", b"salt", 4096)
    credential = make_credential(mechanism, "pässword", b"salt", 4096)
    assert credential == credential_of(mechanism, salted, b"salt", 4096)
    assert credential.stored_key == stored_key(mechanism, client_key(mechanism, salted))
    assert len({salted, credential.stored_key, credential.server_key, client_key(mechanism, salted)}) == 4


def test_a_credential_shows_no_key():
    credential = make_credential(SHA_512, "secret", b"salt", 4096)
    assert repr(credential) == "ScramCredential(iterations=4096)"
