"""The keys that SCRAM derives from a password (RFC 5802, section 3), alike for users, tools and nodes.

Names and passwords are the bytes of their UTF-8, as in Kafka. To hash a password takes milliseconds of a processor, as it should; the other
keys take microseconds.
"""

import hashlib
import hmac

from esp.model.scram import ScramCredential, ScramMechanism


def salted_password(mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> bytes:
    """Hash a password: ``Hi`` of RFC 5802. It takes 1 ms for SHA-256 and 4,096 iterations, 9 ms for SHA-512 and 16,384."""
    return hashlib.pbkdf2_hmac(mechanism.hash_name, password.encode(), salt, iterations)


def client_key(mechanism: ScramMechanism, salted: bytes) -> bytes:
    """Return the key with which a client proves that it knows the password."""
    return hmac.digest(salted, b"Client Key", mechanism.hash_name)


def server_key(mechanism: ScramMechanism, salted: bytes) -> bytes:
    """Return the key with which a server proves that it knows the credential."""
    return hmac.digest(salted, b"Server Key", mechanism.hash_name)


def stored_key(mechanism: ScramMechanism, key: bytes) -> bytes:
    """Return the hash of a client's key: the part of a credential that a proof is checked against."""
    return hashlib.new(mechanism.hash_name, key).digest()


def make_credential(mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> ScramCredential:
    """Return what a node keeps of a password; as slow as :func:`salted_password`."""
    return credential_of(mechanism, salted_password(mechanism, password, salt, iterations), salt, iterations)


def credential_of(mechanism: ScramMechanism, salted: bytes, salt: bytes, iterations: int) -> ScramCredential:
    """Return what a node keeps of a password that has been hashed with that salt and those iterations."""
    return ScramCredential(
        salt=salt,
        stored_key=stored_key(mechanism, client_key(mechanism, salted)),
        server_key=server_key(mechanism, salted),
        iterations=iterations,
    )
