import hashlib

from esp.simulation.derived_keys import remembered

ARGUMENTS = ("sha256", b"password", b"salt", 9)


def test_key_is_derived_once_in_all_blocks_and_is_the_same():
    derive = hashlib.pbkdf2_hmac
    with remembered():
        key = hashlib.pbkdf2_hmac(*ARGUMENTS)
    with remembered():
        assert hashlib.pbkdf2_hmac(*ARGUMENTS) is key
        assert hashlib.pbkdf2_hmac("sha256", b"another", b"salt", 9) != key
    assert hashlib.pbkdf2_hmac is derive
    assert derive(*ARGUMENTS) == key
