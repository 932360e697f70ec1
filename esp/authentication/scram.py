"""SCRAM (RFC 5802, RFC 7677, KIP-84): its formulas, and the exchange as its client and as its server.

Nonces come from outside. Names and passwords are the bytes of their UTF-8: like Kafka and librdkafka, and unlike RFC 5802, neither side
prepares them with SASLprep, so that a password hashed by one program is one for the other. There is no channel binding, and a message that
asks for it, or has an extension that must be understood (``m=``), is refused. Extensions that may be ignored are.

Keys, proofs and signatures are compared by :func:`hmac.compare_digest` only. A server goes on as usual with a user that does not exist: the
client learns of a failure with the last message, whatever the fault, after the same work (AUTHN-3, AUTHN-4). A credential that was removed
or replaced since the first message lets no client in (CRED-1).
"""

import base64
import binascii
import hmac
import re
from collections.abc import Callable, Sequence
from typing import Final

from esp.authentication.credentials import CredentialLookup, FoundCredential
from esp.authentication.delegation_tokens import make_credentials
from esp.authentication.errors import OTHER_USER, AuthenticationError, MalformedMessageError
from esp.authentication.exchange import Challenge, NewTokenWait, SlowCheck, Success
from esp.model.scram import MAX_ITERATIONS, MIN_ITERATIONS, ScramCredential, ScramMechanism
from esp.model.scram_keys import client_key, make_credential, salted_password, server_key, stored_key
from esp.model.shown_names import shown

NONCE_CHARACTERS_MAX: Final = 256
"""The longest nonce that either side takes from the other. Those of the known clients have 22 to 36 characters."""
MESSAGE_BYTES_MAX: Final = 8_192
"""The longest message of an exchange. A user's name takes the larger part of the longest that is of use."""

_EXTENSION_OF_TOKENS: Final = "tokenauth=true"
"""The extension by which a client says that it logs in by a delegation token."""

_NAME: Final = r"(?:[^=,\x00]|=2C|=3D)+"
_PRINTABLE: Final = r"[\x21-\x2b\x2d-\x7e]+"
_BASE64: Final = r"[A-Za-z0-9/+=]+"
_EXTENSIONS: Final = r"(?P<extensions>(?:,[A-Za-z]+=[^,\x00]+)*)"
_CLIENT_FIRST: Final = re.compile(
    rf"(?P<header>n,(?:a=(?P<authorization>{_NAME}))?,)(?P<bare>n=(?P<name>{_NAME}),r=(?P<nonce>{_PRINTABLE}){_EXTENSIONS})",
    re.DOTALL,
)
_SERVER_FIRST: Final = re.compile(
    rf"r=(?P<nonce>{_PRINTABLE}),s=(?P<salt>{_BASE64}),i=(?P<iterations>[0-9]{{1,9}}){_EXTENSIONS}", re.DOTALL
)
_CLIENT_FINAL: Final = re.compile(
    rf"(?P<without_proof>c=(?P<binding>{_BASE64}),r=(?P<nonce>{_PRINTABLE}){_EXTENSIONS}),p=(?P<proof>{_BASE64})",
    re.DOTALL,
)
_SERVER_FINAL: Final = re.compile(rf"(?:e=(?P<error>[^,\x00]+)|v=(?P<signature>{_BASE64})){_EXTENSIONS}", re.DOTALL)


def is_password(mechanism: ScramMechanism, password: str, credential: ScramCredential) -> bool:
    """True if the credential was made of this password; as slow as :func:`~esp.model.scram_keys.salted_password`."""
    made = make_credential(mechanism, password, credential.salt, credential.iterations)
    return hmac.compare_digest(made.stored_key, credential.stored_key)


def _signature(mechanism: ScramMechanism, key: bytes, signed: str) -> bytes:
    return hmac.digest(key, signed.encode(), mechanism.hash_name)


def _exclusive_or(left: bytes, right: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(left, right, strict=True))


def _encode_name(name: str) -> str:
    return name.replace("=", "=3D").replace(",", "=2C")


def _decode_name(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")


def _decode_base64(text: str) -> bytes:
    try:
        decoded = base64.b64decode(text, validate=True)
    except binascii.Error:
        decoded = b""
    if base64.b64encode(decoded).decode() != text:  # one text for each value
        raise MalformedMessageError("a SCRAM message holds a text that is no base64")
    return decoded


def _parse(pattern: "re.Pattern[str]", message: bytes, name: str) -> "re.Match[str]":
    """Match a whole message.

    Raises:
        MalformedMessageError: it is too long, no UTF-8, or has another form.
    """
    if len(message) > MESSAGE_BYTES_MAX:
        raise MalformedMessageError(f"the {name} message of SCRAM is too long: {len(message)} bytes")
    try:
        match = pattern.fullmatch(message.decode())
    except UnicodeDecodeError:
        match = None
    if match is None:
        raise MalformedMessageError(f"the {name} message of SCRAM is malformed")
    if any(extension.startswith("m=") for extension in match["extensions"].split(",")):
        raise MalformedMessageError(f"the {name} message of SCRAM has an extension that must be understood")
    nonce = match.groupdict().get("nonce")
    if nonce is not None and len(nonce) > NONCE_CHARACTERS_MAX:
        raise MalformedMessageError(f"the nonce of the {name} message of SCRAM is too long: {len(nonce)} characters")
    return match


class ScramClient:
    """One log-in as a client: :meth:`first_message`, :meth:`on_server_first` and :meth:`on_server_final`, in this order, once each.

    Args:
        nonce: printable ASCII without commas, never used before; 18 random bytes in base64 are enough.
        is_token: the name and password are those of a delegation token.
    """

    def __init__(
        self, mechanism: ScramMechanism, username: str, password: str, nonce: str, *, is_token: bool = False
    ) -> None:
        self._mechanism = mechanism
        self._password = password
        self._nonce = nonce
        extensions = ",tokenauth=true" if is_token else ""
        self._first_bare = f"n={_encode_name(username)},r={nonce}{extensions}"
        self._server_signature = b""

    def first_message(self) -> bytes:
        """The message that begins the exchange."""
        return f"n,,{self._first_bare}".encode()

    def on_server_first(self, message: bytes) -> bytes:
        """Return the answer to the server's first message, with the proof; as slow as :func:`~esp.model.scram_keys.salted_password`.

        Raises:
            AuthenticationError: the message is malformed, its nonce does not continue ours, or it asks for too few iterations for the
                password to be safe, or for more than a credential of Kafka can have.
        """
        first = _parse(_SERVER_FIRST, message, "server's first")
        nonce = first["nonce"]
        if not nonce.startswith(self._nonce) or len(nonce) == len(self._nonce):
            raise AuthenticationError("the server's nonce does not continue ours")
        iterations = int(first["iterations"])
        if not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
            raise AuthenticationError(
                f"the server asks for {iterations} iterations; between {MIN_ITERATIONS} and {MAX_ITERATIONS} are allowed"
            )
        salted = salted_password(self._mechanism, self._password, _decode_base64(first["salt"]), iterations)
        without_proof = f"c=biws,r={nonce}"
        signed = ",".join((self._first_bare, message.decode(), without_proof))
        key = client_key(self._mechanism, salted)
        signature = _signature(self._mechanism, stored_key(self._mechanism, key), signed)
        self._server_signature = _signature(self._mechanism, server_key(self._mechanism, salted), signed)
        proof = base64.b64encode(_exclusive_or(key, signature)).decode()
        return f"{without_proof},p={proof}".encode()

    def on_server_final(self, message: bytes) -> None:
        """Check that the server knows the password, too.

        Raises:
            AuthenticationError: it does not, or it refuses ours.
        """
        final = _parse(_SERVER_FINAL, message, "server's final")
        if final["error"] is not None:
            raise AuthenticationError(f"the server refuses the log-in: {shown(final['error'])}")
        if not self._server_signature or not hmac.compare_digest(
            _decode_base64(final["signature"]), self._server_signature
        ):
            raise AuthenticationError("the server does not know the password")


class ScramExchange:
    """One log-in as the server; see :class:`esp.authentication.exchange.Exchange`.

    Args:
        mechanism: the kind of SCRAM.
        lookup: finds credentials.
        make_nonce: returns the server's part of the nonce: printable ASCII without commas, never used before.
    """

    def __init__(self, mechanism: ScramMechanism, lookup: CredentialLookup, make_nonce: Callable[[], str]) -> None:
        self._mechanism = mechanism
        self._lookup = lookup
        self._make_nonce = make_nonce
        self._user = ""
        self._client_nonce = self._nonce = ""
        self._header = b""
        self._found: FoundCredential | None = None
        self._is_by_token = False
        self._signed = ""
        """The messages so far, as both signatures cover them."""

    def respond(self, message: bytes) -> Challenge | Success | SlowCheck | NewTokenWait:
        """See :class:`esp.authentication.exchange.Exchange`."""
        found = self._found
        return self._on_first(message) if found is None else self._on_final(message, found)

    def _on_first(self, message: bytes) -> Challenge:
        first = _parse(_CLIENT_FIRST, message, "client's first")
        self._user = _decode_name(first["name"])
        authorization = first["authorization"]
        if authorization is not None and _decode_name(authorization) != self._user:
            raise AuthenticationError(
                f"the user {shown(self._user)} asks to act as {shown(_decode_name(authorization))}", OTHER_USER
            )
        self._is_by_token = _EXTENSION_OF_TOKENS in first["extensions"].lower().split(",")
        if self._is_by_token:
            stand_in = self._lookup.tokens.stand_in(self._user, self._mechanism)
            self._found = found = FoundCredential(stand_in, is_real=False)
        else:
            self._found = found = self._lookup.find(self._user, self._mechanism)
        credential = found.credential
        self._client_nonce = first["nonce"]
        self._nonce = self._client_nonce + self._make_nonce()
        self._header = first["header"].encode()
        answer = f"r={self._nonce},s={base64.b64encode(credential.salt).decode()},i={credential.iterations}"
        self._signed = f"{first['bare']},{answer}"
        return Challenge(answer.encode())

    def _on_final(self, message: bytes, found: FoundCredential) -> Success | SlowCheck | NewTokenWait:
        final = _parse(_CLIENT_FINAL, message, "client's final")
        if not hmac.compare_digest(final["nonce"], self._nonce):
            is_old = hmac.compare_digest(final["nonce"], self._client_nonce + self._nonce)
            reason = ", as librdkafka before 2.6.1 sends it: update the client" if is_old else ""
            raise AuthenticationError(f"the last message of the user {shown(self._user)} has another nonce{reason}")
        if not hmac.compare_digest(_decode_base64(final["binding"]), self._header):
            raise AuthenticationError(f"the last message of the user {shown(self._user)} asks for a channel binding")
        self._signed = f"{self._signed},{final['without_proof']}"
        proof = _decode_base64(final["proof"])
        if self._is_by_token:
            return self._on_final_of_token(proof, found.credential)
        is_in_force = self._lookup.is_in_force(self._user, self._mechanism, found)
        if not (self._is_proof(proof, found.credential) and is_in_force):
            raise AuthenticationError(f"wrong password, or no such user: {shown(self._user)}")
        return Success(self._user, self._verifier(found.credential))

    def _on_final_of_token(
        self, proof: bytes, stand_in: ScramCredential, *, may_wait: bool = True
    ) -> Success | SlowCheck | NewTokenWait:
        tokens, token_id, mechanism = self._lookup.tokens, self._user, self._mechanism
        token = tokens.find(token_id)
        if token is None:
            return self._conclude_token(proof, (stand_in,), may_wait=may_wait)
        kept = tokens.kept(token_id, mechanism)
        if kept is not None:
            return self._conclude_token(proof, kept, may_wait=may_wait)
        made: list[ScramCredential] = []

        def is_right() -> bool:
            made.extend(make_credentials(mechanism, token, stand_in.salt))
            return True

        def conclude(is_made: bool) -> Success | NewTokenWait:
            if is_made:
                tokens.keep(token_id, mechanism, tuple(made))
            return self._conclude_token(proof, tuple(made), may_wait=may_wait)

        return SlowCheck(is_right, conclude)

    def _conclude_token(
        self, proof: bytes, credentials: Sequence[ScramCredential], *, may_wait: bool
    ) -> Success | NewTokenWait:
        """Return the success of a log-in whose proof fits one of the credentials, if there is the token, still (TOKEN-1).

        A log-in that fails waits once, whatever the fault: the token may be so new that this node does not know it yet, and the time of a
        failure does not tell whether there is the token.

        Raises:
            AuthenticationError: it fits none, or the token's time is over, or there is no such token.
        """
        matching = [credential for credential in credentials if self._is_proof(proof, credential)]
        find, token_id = self._lookup.tokens.find, self._user
        token = find(token_id)
        if matching and token is not None:
            return Success(token.user, self._verifier(matching[0]), lifetime_ms=token.left_ms, is_by_token=True)
        if may_wait:
            was_missing = token is None
            return NewTokenWait(
                lambda: was_missing and find(token_id) is not None, lambda _is_known: self._on_final_again(proof)
            )
        raise AuthenticationError(f"wrong password, or no such token, or its time is over: {shown(self._user)}")

    def _on_final_again(self, proof: bytes) -> Success | SlowCheck:
        assert self._found is not None, "the first message finds it"
        outcome = self._on_final_of_token(proof, self._found.credential, may_wait=False)
        assert isinstance(outcome, Success | SlowCheck), "a token is waited for once"
        return outcome

    def _is_proof(self, proof: bytes, credential: ScramCredential) -> bool:
        """True if the client has proved that it knows the password of a credential."""
        signature = _signature(self._mechanism, credential.stored_key, self._signed)
        is_whole = len(proof) == len(signature)
        key = _exclusive_or(proof if is_whole else signature, signature)
        return hmac.compare_digest(stored_key(self._mechanism, key), credential.stored_key) and is_whole

    def _verifier(self, credential: ScramCredential) -> bytes:
        """Return the last message, which proves that the server knows the credential."""
        verifier = base64.b64encode(_signature(self._mechanism, credential.server_key, self._signed)).decode()
        return f"v={verifier}".encode()
