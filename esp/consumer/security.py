"""The protection of a consumer's connections: Kafka's settings ``security.protocol``, ``ssl.*`` and ``sasl.*``.

What the tools of ``esp`` keep is kept here, by the same code; certificates are read when the first connection is made, on the machine that
makes it, and again when a connection finds that their files have changed. No message quotes a password.
"""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from ssl import SSLContext
from typing import Any, Final, NamedTuple

from esp.consumer.errors import ConsumerError, SettingError
from esp.model.jaas import parse_jaas_config
from esp.model.sasl import SaslMechanism
from esp.model.sasl_login import SaslLogin
from esp.model.tls import TlsPolicy
from esp.settings.sasl import SASL_REFUSED
from esp.settings.tls import CLIENT_TLS_SETTINGS, TLS_REFUSED, TlsError, read_client_tls_policy

_PROTOCOL: Final = "security.protocol"
_MECHANISM: Final = "sasl.mechanism"
_JAAS: Final = "sasl.jaas.config"
_PLAIN: Final = "PLAINTEXT"
_ENCRYPTED: Final = ("SSL", "SASL_SSL")
_AUTHENTICATED: Final = ("SASL_PLAINTEXT", "SASL_SSL")
_PROTOCOLS: Final = (_PLAIN, "SSL", "SASL_PLAINTEXT", "SASL_SSL")


@dataclass(frozen=True, slots=True)
class Security:
    """The terms of connections; the default is neither encrypted nor authenticated."""

    tls: TlsPolicy | None = None
    login: SaslLogin | None = None

    def load_context_blocking(self) -> SSLContext:
        """Read the stores and return the context of encrypted connections.

        Raises:
            ConsumerError: the stores cannot be used, or a package that reads them is missing here.
        """
        assert self.tls is not None, "the terms are encrypted"
        try:
            contexts = importlib.import_module("esp.runtime.tls.contexts")
            problem: type[Any] = importlib.import_module("esp.model.errors").OperatorError
        except ModuleNotFoundError as error:
            raise ConsumerError(
                f"{_PROTOCOL}: the package {error.name} is not installed here, and keys and certificates need it: install esp with all "
                "that it requires on each executor"
            ) from error
        try:
            context: SSLContext = contexts.load_client_context_blocking(self.tls)
        except problem as error:
            raise ConsumerError(f"{error.problem} {error.remedy}") from error
        return context


class ClientStores:
    """The stores of encrypted connections as they were last read: a client that runs for months outlives its certificates.

    Args:
        security: the terms, which are encrypted.
    """

    def __init__(self, security: Security) -> None:
        assert security.tls is not None, "the terms are encrypted"
        self._security = security
        locations = (security.tls.key_store.location, security.tls.trust_store.location)
        self._paths = [location for location in locations if location]
        self._read: _Read | None = None

    def context_blocking(self) -> SSLContext:
        """Return OpenSSL's context of what the files hold now. While they cannot be used, a key without its certificate say, it is that of
        what they held before.

        Raises:
            ConsumerError: they cannot be used, and never could.
        """
        look = importlib.import_module("esp.runtime.tls.file_watch").look_at_blocking(self._paths)
        if self._read is None or self._read.look != look:
            try:
                self._read = _Read(look, self._security.load_context_blocking())
            except ConsumerError:
                if self._read is None:
                    raise
        return self._read.context


class _Read(NamedTuple):
    look: Any
    """The state of the files before they were read, so that a change meanwhile is noticed."""
    context: SSLContext


def is_security_setting(name: str) -> bool:
    """True for the names of settings that :func:`read_security` reads or refuses."""
    return name == _PROTOCOL or name.startswith(("ssl.", "sasl."))


def read_security(settings: Mapping[str, str], prefix: str = "") -> Security:
    """Return the terms that settings give.

    Args:
        settings: by Kafka's names; others than those of :func:`is_security_setting` are not looked at.
        prefix: what stands in front of Kafka's names where the user writes them, for messages.

    Raises:
        SettingError: a value cannot be used, or a setting has no effect.
    """
    protocol = settings.get(_PROTOCOL, _PLAIN).strip().upper()
    if protocol not in _PROTOCOLS:
        raise SettingError(prefix + _PROTOCOL, protocol, f"there is no such protocol: write {_either(_PROTOCOLS)}")
    tls = {name: value for name, value in settings.items() if name.startswith("ssl.")}
    sasl = {name: value for name, value in settings.items() if name.startswith("sasl.")}
    for given, protocols in ((tls, _ENCRYPTED), (sasl, _AUTHENTICATED)):
        if given and protocol not in protocols:
            raise SettingError(
                prefix + next(iter(given)),
                None,
                f"it has no effect while {prefix}{_PROTOCOL} is {protocol}: write {_either(protocols)} there, or remove it",
            )
    return Security(
        _read_tls(tls, prefix) if protocol in _ENCRYPTED else None,
        _read_login(sasl, prefix, protocol) if protocol in _AUTHENTICATED else None,
    )


def _either(values: tuple[str, ...]) -> str:
    return " or ".join(values)


def _read_tls(settings: Mapping[str, str], prefix: str) -> TlsPolicy:
    for name in settings:
        if name not in CLIENT_TLS_SETTINGS:
            reason = TLS_REFUSED.get(name, "it has no effect on clients")
            raise SettingError(prefix + name, None, f"{reason}: remove it")
    try:
        return read_client_tls_policy(settings.get)
    except TlsError as error:
        raise SettingError(prefix + error.name, None, f"{error.reason}: correct it") from error


def _read_login(settings: Mapping[str, str], prefix: str, protocol: str) -> SaslLogin:
    for name in settings:
        if name not in (_MECHANISM, _JAAS):
            reason = SASL_REFUSED.get(name, "it has no effect on clients of ESP")
            raise SettingError(prefix + name, None, f"{reason}: remove it")
    served = {mechanism.value: mechanism for mechanism in SaslMechanism}
    for name, example in (
        (_MECHANISM, _either(tuple(served))),
        (_JAAS, 'org.apache.kafka.common.security.scram.ScramLoginModule required username="…" password="…";'),
    ):
        if name not in settings:
            raise SettingError(prefix + name, None, f"{prefix}{_PROTOCOL}={protocol} needs it: write {example}")
    chosen = settings[_MECHANISM].strip()
    mechanism = served.get(chosen)
    if mechanism is None:
        raise SettingError(prefix + _MECHANISM, chosen, f"this client does not have it: write {_either(tuple(served))}")
    try:
        config = parse_jaas_config(settings[_JAAS])
        username, password = config.option("username"), config.option("password")
    except ValueError as error:
        raise SettingError(prefix + _JAAS, None, f"{error}: write a login module with username and password") from error
    if config.module.name != ("PLAIN" if mechanism.scram is None else "SCRAM"):
        raise SettingError(
            prefix + _JAAS, None, f"its login module is not the one of {mechanism.value}: change one of both"
        )
    return SaslLogin(mechanism, username, password, is_token=config.is_by_token, setting=prefix + _JAAS)
