"""The reasons themselves are seen where they come about: test_tls_connection.py."""

import ssl

import pytest

from esp.runtime.tls.failures import describe, is_plaintext


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ssl.SSLEOFError(), "it ended the connection"),
        (OSError("no memory"), "no memory"),
    ],
)
def test_errors_without_a_reason_of_openssl_s_are_told_too(error, words):
    assert describe(error) == words


def test_only_a_record_of_a_handshake_begins_tls():
    assert [byte for byte in range(256) if not is_plaintext(byte)] == [0x16]
