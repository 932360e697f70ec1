"""The reasons for which no TLS connection came about, in words that say which side has to change what."""

import ssl
from typing import Final

_WORDS: Final = {
    "HTTP_REQUEST": "it speaks HTTP",
    "HTTPS_PROXY_REQUEST": "it speaks HTTP",
    "WRONG_VERSION_NUMBER": "it does not speak TLS",
    "UNSUPPORTED_PROTOCOL": "it speaks only versions of TLS that ssl.enabled.protocols does not have",
    "VERSION_TOO_LOW": "it speaks only versions of TLS that ssl.enabled.protocols does not have",
    "NO_SHARED_CIPHER": "it has no cipher suite in common with ssl.cipher.suites and the key of this node",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "it showed no certificate, which ssl.client.auth=required asks for",
    "TLSV1_ALERT_PROTOCOL_VERSION": "the other side speaks none of the TLS versions of ssl.enabled.protocols",
    "TLSV1_ALERT_UNKNOWN_CA": "the other side does not trust the authority of this node's certificate",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "the other side asks for a certificate",
    "SSLV3_ALERT_BAD_CERTIFICATE": "the other side refuses this node's certificate",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "the other side does not trust this node's certificate, or it is for another host",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "the other side finds this node's certificate expired",
    "SSLV3_ALERT_CERTIFICATE_REVOKED": "the other side finds this node's certificate revoked",
    "SSLV3_ALERT_HANDSHAKE_FAILURE": "the other side has no version or cipher suite in common with this node, or wants a certificate",
}
_SSL_RECORD_HANDSHAKE: Final = 0x16


def describe(error: Exception) -> str:
    """Return why a handshake failed."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is refused: {error.verify_message}"
    if isinstance(error, ssl.SSLEOFError):
        return "it ended the connection"
    if isinstance(error, ssl.SSLError) and error.reason:
        return _WORDS.get(error.reason, error.reason.lower().replace("_", " "))
    return str(error)


def is_plaintext(first_byte: int) -> bool:
    """True if a connection that begins with this byte does not begin TLS."""
    return first_byte != _SSL_RECORD_HANDSHAKE
