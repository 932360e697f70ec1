"""The family of ``ssl.*`` settings: what each listener's encrypted connections are to be (:class:`esp.model.tls.TlsPolicy`).

A setting may be given for all listeners, or with the prefix ``listener.name.NAME.`` for one, which counts more. Files are not read here.
"""

import importlib
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from esp.model.tls import TLS_1_2, TLS_1_3, TLS_VERSIONS, ClientAuth, KeyStore, StoreType, TlsPolicy, TrustStore
from esp.settings.setting import FamilyError, Kind, Setting, SettingError, Value, at_least, one_of

PREFIX: Final = "listener.name."
"""The beginning of the names of settings that are given for one listener only; its name follows, in small letters."""

PRINCIPAL_RULES: Final = "ssl.principal.mapping.rules"

_TLS_1_3_SUITES: Final = frozenset(("TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256"))
_TLS_1_2_SUITES: Final = {
    f"TLS_ECDHE_{key}_WITH_{ours}": f"ECDHE-{key}-{openssl}"
    for key in ("ECDSA", "RSA")
    for ours, openssl in (
        ("AES_256_GCM_SHA384", "AES256-GCM-SHA384"),
        ("AES_128_GCM_SHA256", "AES128-GCM-SHA256"),
        ("CHACHA20_POLY1305_SHA256", "CHACHA20-POLY1305"),
    )
}


def _suites(value: Value) -> None:
    assert isinstance(value, tuple), "it is a list"
    known = (*sorted(_TLS_1_3_SUITES), *_TLS_1_2_SUITES)
    for name in value:
        if name not in known:
            raise SettingError(
                f"Suites must keep recorded traffic secret when a key leaks later, and notice changed bytes: {', '.join(known)}",
                name,
            )
    of_1_3 = _TLS_1_3_SUITES.intersection(value)
    if of_1_3 and of_1_3 != _TLS_1_3_SUITES:
        missing = ", ".join(sorted(_TLS_1_3_SUITES - of_1_3))
        raise SettingError(f"Python cannot leave out one suite of TLS 1.3: name these too, or none of them: {missing}")


def _enabled_versions(value: Value) -> None:
    assert isinstance(value, tuple), "it is a list"
    for version in value:
        if version not in TLS_VERSIONS:
            raise SettingError(
                f"TLS before 1.2 is not safe and not spoken; there are {', '.join(TLS_VERSIONS)}", version
            )
    if not value:
        raise SettingError("At least one version must be enabled")


def _host_check(value: Value) -> None:
    if str(value).lower() not in ("https", ""):
        raise SettingError("It is https (host names are checked) or empty (they are not)")


def _password(name: str, doc: str) -> Setting:
    return Setting(name, Kind.PASSWORD, doc)


_ALGORITHMS: Final = "Java's; checked only, as OpenSSL does what it names."

TLS_SETTINGS: Final[dict[str, Setting]] = {
    setting.name: setting
    for setting in (
        Setting(
            "connection.authentication.timeout.ms",
            Kind.INT,
            "Milliseconds until a connection must be encrypted, if it is to be, and authenticated, or it is ended; default: 10000.",
            at_least(1),
        ),
        Setting(
            "ssl.allow.dn.changes", Kind.BOOLEAN, "Take a new certificate although its distinguished name is another."
        ),
        Setting(
            "ssl.allow.san.changes", Kind.BOOLEAN, "Take a new certificate although it lacks host names of the old one."
        ),
        Setting(
            "ssl.cipher.suites",
            Kind.LIST,
            "Cipher suites; without those of TLS 1.3 only TLS 1.2 is spoken. Empty: all good ones.",
            _suites,
        ),
        Setting(
            "ssl.client.auth",
            Kind.STRING,
            "Whether clients must show a certificate: required, requested, none.",
            one_of(*(each.value for each in ClientAuth)),
        ),
        Setting("ssl.enabled.protocols", Kind.LIST, "Versions of TLS that are spoken.", _enabled_versions),
        Setting(
            "ssl.endpoint.identification.algorithm",
            Kind.STRING,
            "https: a node checks the host name in another node's certificate; empty: it does not.",
            _host_check,
        ),
        _password("ssl.key.password", "The password of the private key, in PEM."),
        Setting("ssl.keymanager.algorithm", Kind.STRING, _ALGORITHMS, one_of("SunX509", "NewSunX509", "PKIX")),
        _password("ssl.keystore.certificate.chain", "The node's certificate and its authorities', in PEM, as text."),
        _password("ssl.keystore.key", "The node's private key in PEM, as text."),
        Setting("ssl.keystore.location", Kind.STRING, "The file of the node's private key and certificate; watched."),
        _password("ssl.keystore.password", "The password of the key store, of type PKCS12."),
        Setting(
            "ssl.keystore.type",
            Kind.STRING,
            "PEM or PKCS12. Of the type JKS the files are taken that Java writes since version 9, which are PKCS12.",
            one_of(*(each.value for each in StoreType)),
        ),
        Setting(
            PRINCIPAL_RULES,
            Kind.STRING,
            "Rules that make a principal's name of the distinguished name in a client's certificate; default: DEFAULT, the whole name.",
        ),
        Setting(
            "ssl.protocol",
            Kind.STRING,
            "The newest version of TLS that is spoken.",
            one_of(*TLS_VERSIONS, "TLS"),
        ),
        Setting("ssl.trustmanager.algorithm", Kind.STRING, _ALGORITHMS, one_of("PKIX", "SunX509")),
        _password("ssl.truststore.certificates", "The trusted certificates, and revocation lists, in PEM, as text."),
        Setting(
            "ssl.truststore.location",
            Kind.STRING,
            "The file of trusted certificates, in PEM with revocation lists if wanted; watched. Without one: the system's.",
        ),
        _password("ssl.truststore.password", "The password of the trust store, of type PKCS12."),
        Setting(
            "ssl.truststore.type", Kind.STRING, "As ssl.keystore.type.", one_of(*(each.value for each in StoreType))
        ),
    )
}
"""The settings that make a listener's policy."""

_OF_SERVERS: Final = (
    *("connection.authentication.timeout.ms", "ssl.allow.dn.changes", "ssl.allow.san.changes", "ssl.client.auth"),
    PRINCIPAL_RULES,
)
CLIENT_TLS_SETTINGS: Final = frozenset(TLS_SETTINGS).difference(_OF_SERVERS)
"""The settings that concern a client's connections too."""

TLS_REFUSED: Final = {
    "ssl.engine.factory.class": "this release loads no foreign classes; TLS is OpenSSL's",
    "ssl.provider": "TLS is OpenSSL's; there are no providers of Java's",
    "ssl.secure.random.implementation": "random numbers are OpenSSL's; there are no implementations of Java's",
}


class TlsError(FamilyError):
    """Settings of this family do not go together."""


def names_for(listener: str, setting: str) -> tuple[str, str]:
    """Return the names under which a setting may be given for a listener; the first counts more."""
    return f"{PREFIX}{listener.lower()}.{setting}", setting


def unprefixed(name: str) -> str | None:
    """Return the setting of this family that a name with a listener's prefix gives; None if it is no such name."""
    if not name.startswith(PREFIX):
        return None
    setting = name[len(PREFIX) :].partition(".")[2]
    return setting if setting in TLS_SETTINGS or setting in TLS_REFUSED else None


def read_tls_policy(
    listener: str, texts: Callable[[str], str | None], *, is_between_nodes: bool, has_sasl: bool = False
) -> TlsPolicy:
    """Return what the settings say of a listener's connections.

    Args:
        listener: its name.
        texts: returns the text of a setting that was given by exactly this name, None if it was not.
        is_between_nodes: whether nodes of the cluster connect to it.
        has_sasl: whether its clients are authenticated by SASL. Then ``ssl.client.auth`` counts only if it is given with the prefix of
            the listener (KIP-684): a node may have listeners for clients with certificates and for clients with passwords.

    Raises:
        TlsError: a text is no value of its setting, or settings do not go together.
    """
    return _Reader(listener, texts).policy(is_between_nodes=is_between_nodes, has_sasl=has_sasl)


def read_client_tls_policy(texts: Callable[[str], str | None]) -> TlsPolicy:
    """Return what a client's settings say of its connections; it needs no key store.

    Args:
        texts: returns the text of a setting, None if it was not given.

    Raises:
        TlsError: as :func:`read_tls_policy`.
    """
    return _Reader("", texts).client_policy()


class _Reader:
    def __init__(self, listener: str, texts: Callable[[str], str | None]) -> None:
        self._listener = listener
        self._texts = texts

    def policy(self, *, is_between_nodes: bool, has_sasl: bool) -> TlsPolicy:
        for algorithms in ("ssl.keymanager.algorithm", "ssl.trustmanager.algorithm"):
            self._value(algorithms)
        key_store, trust_store = self._key_store(), self._trust_store()
        client_auth = ClientAuth(self._value("ssl.client.auth") or ClientAuth.NONE.value)
        if has_sasl and not self._given("ssl.client.auth").startswith(PREFIX):
            client_auth = ClientAuth.NONE
        if not key_store.is_given:
            raise TlsError(
                self._given("ssl.keystore.location"),
                f"the listener {self._listener} speaks SSL and needs a private key and a certificate: give "
                "ssl.keystore.location, or ssl.keystore.key and ssl.keystore.certificate.chain",
            )
        if client_auth is not ClientAuth.NONE and not trust_store.is_given:
            raise TlsError(
                self._given("ssl.client.auth"),
                "it needs ssl.truststore.location or ssl.truststore.certificates: without them a certificate of any public authority "
                "would be believed",
            )
        timeout_ms = self._value("connection.authentication.timeout.ms")
        return replace(
            self._common_policy(key_store, trust_store),
            client_auth=client_auth,
            handshake_timeout_ms=timeout_ms if isinstance(timeout_ms, int) else TlsPolicy("").handshake_timeout_ms,
            allows_other_subject=self._value("ssl.allow.dn.changes") is True,
            allows_other_hosts=self._value("ssl.allow.san.changes") is True,
            is_between_nodes=is_between_nodes,
            principal_rules=self._principal_rules(),
        )

    def _principal_rules(self) -> str:
        """The rules, which can be read; RE2 is loaded for that, so a node without TLS does without it."""
        text = self._text(PRINCIPAL_RULES) or TlsPolicy("").principal_rules
        try:
            importlib.import_module("esp.model.principal_mapping").PrincipalMapping(text)
        except ValueError as error:
            raise TlsError(self._given(PRINCIPAL_RULES), str(error)) from error
        return text

    def client_policy(self) -> TlsPolicy:
        return self._common_policy(self._key_store(), self._trust_store())

    def _common_policy(self, key_store: KeyStore, trust_store: TrustStore) -> TlsPolicy:
        """The terms that both ends of a connection have."""
        suites = self._words("ssl.cipher.suites")
        return TlsPolicy(
            listener=self._listener,
            key_store=key_store,
            trust_store=trust_store,
            versions=self._versions(suites),
            ciphers=tuple(_TLS_1_2_SUITES[name] for name in suites if name in _TLS_1_2_SUITES),
            checks_hosts=self._value("ssl.endpoint.identification.algorithm") != "",
        )

    def _key_store(self) -> KeyStore:
        store = KeyStore(
            type=self._store_type("ssl.keystore"),
            location=self._text("ssl.keystore.location"),
            password=self._text("ssl.keystore.password"),
            key=self._text("ssl.keystore.key"),
            chain=self._text("ssl.keystore.certificate.chain"),
            key_password=self._text("ssl.key.password"),
        )
        self._check_sources("ssl.keystore", store.type, store.location, store.password, store.key or store.chain)
        if bool(store.key) != bool(store.chain):
            missing = "ssl.keystore.key" if store.chain else "ssl.keystore.certificate.chain"
            raise TlsError(self._given(missing), "the private key and the certificate chain are given together")
        return store

    def _trust_store(self) -> TrustStore:
        store = TrustStore(
            type=self._store_type("ssl.truststore"),
            location=self._text("ssl.truststore.location"),
            password=self._text("ssl.truststore.password"),
            certificates=self._text("ssl.truststore.certificates"),
        )
        self._check_sources("ssl.truststore", store.type, store.location, store.password, store.certificates)
        return store

    def _store_type(self, family: str) -> StoreType:
        value = self._value(f"{family}.type")
        return StoreType(value) if value is not None else StoreType.JKS

    def _check_sources(self, family: str, kind: StoreType, location: str, password: str, texts: str) -> None:
        """Hold the sources of a store against each other, as Kafka does."""
        if location and texts:
            raise TlsError(self._given(f"{family}.location"), "a store is a file or texts, not both")
        if texts and kind is not StoreType.PEM:
            raise TlsError(
                self._given(f"{family}.type"), f"keys and certificates that are given as texts need {family}.type=PEM"
            )
        if password and kind is StoreType.PEM:
            raise TlsError(
                self._given(f"{family}.password"),
                "a store of type PEM has no password; a private key's is ssl.key.password",
            )

    def _versions(self, suites: tuple[str, ...]) -> tuple[str, ...]:
        versions = frozenset(self._words("ssl.enabled.protocols") or TLS_VERSIONS)
        name = "ssl.enabled.protocols"
        if self._value("ssl.protocol") == TLS_1_2:
            versions, name = versions - {TLS_1_3}, "ssl.protocol"
        if suites and not _TLS_1_3_SUITES.intersection(suites):
            versions, name = versions - {TLS_1_3}, "ssl.cipher.suites"
        elif suites and not any(suite in _TLS_1_2_SUITES for suite in suites):
            versions, name = versions - {TLS_1_2}, "ssl.cipher.suites"
        if not versions:
            raise TlsError(
                self._given(name),
                "no version of TLS is left that ssl.enabled.protocols, ssl.protocol and ssl.cipher.suites allow",
            )
        return tuple(version for version in TLS_VERSIONS if version in versions)

    def _given(self, setting: str) -> str:
        """Return the name under which a setting was given; its own if it was not."""
        return next((name for name in names_for(self._listener, setting) if self._texts(name) is not None), setting)

    def _text(self, setting: str) -> str:
        return (self._texts(self._given(setting)) or "").strip()

    def _value(self, setting: str) -> Value | None:
        """Return the value of a setting, None if it was not given, or given empty where that means nothing."""
        name = self._given(setting)
        text = self._texts(name)
        if text is None or (not text.strip() and setting != "ssl.endpoint.identification.algorithm"):
            return None
        try:
            return TLS_SETTINGS[setting].parse(text)
        except SettingError as error:
            raise TlsError(name, error.reason) from error

    def _words(self, setting: str) -> tuple[str, ...]:
        value = self._value(setting)
        return value if isinstance(value, tuple) else ()
