"""The settings of OAUTHBEARER (KIP-768): the terms on which a listener believes tokens, and those on which this node gets its own.

The classes that Kafka's settings name are stood in for by ours where they are Kafka's own, and refused where they are not. In Kafka a
listener without the right classes, or without an issuer and an audience, believes tokens that prove nothing (CVE-2026-33557,
CVE-2026-110985); here the node does not start. Providers are reached by https: the login module's options ``ssl.…`` say whose certificates
are trusted, otherwise the system does.
"""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from esp.model.oauth import OauthLogin, OauthTerms
from esp.model.tls import TlsPolicy
from esp.model.web_place import WebPlace, parse_web_place
from esp.settings.setting import FamilyError, Kind, Setting, SettingError, Value, at_least, between
from esp.settings.tls import CLIENT_TLS_SETTINGS, TlsError, read_client_tls_policy

_PACKAGE: Final = "org.apache.kafka.common.security.oauthbearer."
_EXTENSION: Final = "extension_"
"""The beginning of the options that name extensions (KIP-342)."""
_CREDENTIALS: Final = ("clientId", "clientSecret", "scope")
_KEYS: Final = "sasl.oauthbearer.jwks.endpoint.url"
TOKENS: Final = "sasl.oauthbearer.token.endpoint.url"
_JAAS: Final = "sasl.jaas.config"
_JAAS_MODULE: Final = "esp.model.jaas"  # loaded only where there is such a setting
_ISSUER: Final = "sasl.oauthbearer.expected.issuer"
_AUDIENCE: Final = "sasl.oauthbearer.expected.audience"
_RETRIEVER: Final = "sasl.oauthbearer.jwt.retriever.class"
SERVER_HANDLER: Final = "sasl.server.callback.handler.class"
LOGIN_HANDLER: Final = "sasl.login.callback.handler.class"
_FILE_RETRIEVER: Final = _PACKAGE + "FileJwtRetriever"
_CLIENT_RETRIEVER: Final = _PACKAGE + "ClientCredentialsJwtRetriever"


def _stands_for(*names: str) -> Callable[[Value], None]:
    """Kafka's classes that this release has an implementation of."""
    known = tuple(_PACKAGE + name for name in names)

    def check(value: Value) -> None:
        if value not in known:
            raise SettingError(
                f"This release loads no foreign classes; it stands in for {', '.join(known)}", str(value)
            )

    return check


OAUTH_SETTINGS: Final[dict[str, Setting]] = {
    setting.name: setting
    for setting in (
        Setting(
            LOGIN_HANDLER,
            Kind.CLASS,
            "Held against what this release can do: Kafka's own class for tokens from an endpoint or a file.",
            _stands_for("OAuthBearerLoginCallbackHandler", "secured.OAuthBearerLoginCallbackHandler"),
        ),
        Setting(
            "sasl.login.connect.timeout.ms",
            Kind.INT,
            "Milliseconds that a connection to the token endpoint may take; default: 10000.",
            at_least(1),
        ),
        Setting(
            "sasl.login.read.timeout.ms",
            Kind.INT,
            "Milliseconds that the answer of the token endpoint may take; default: 10000.",
            at_least(1),
        ),
        Setting(
            "sasl.login.refresh.buffer.seconds",
            Kind.SHORT,
            "Seconds before the end of this node's token at which it gets another one at the latest.",
            between(0, 3_600),
        ),
        Setting(
            "sasl.login.refresh.min.period.seconds",
            Kind.SHORT,
            "Least seconds between two tokens that this node gets.",
            between(0, 900),
        ),
        Setting(
            "sasl.login.refresh.window.factor",
            Kind.DOUBLE,
            "The part of a token's life after which this node gets another one.",
            between(0.5, 1.0),
        ),
        Setting(
            "sasl.login.refresh.window.jitter",
            Kind.DOUBLE,
            "A random part of a token's life up to this one is added to sasl.login.refresh.window.factor.",
            between(0.0, 0.25),
        ),
        Setting(
            "sasl.login.retry.backoff.max.ms",
            Kind.LONG,
            "Milliseconds after which a log-in gives up requests to the token endpoint.",
            at_least(0),
        ),
        Setting(
            "sasl.login.retry.backoff.ms",
            Kind.LONG,
            "Milliseconds after the first failed request to the token endpoint; twice as many after each other one.",
            at_least(1),
        ),
        Setting(
            "sasl.oauthbearer.client.credentials.client.id",
            Kind.STRING,
            "The name by which this node asks the token endpoint for its own tokens.",
        ),
        Setting(
            "sasl.oauthbearer.client.credentials.client.secret",
            Kind.PASSWORD,
            "The password for sasl.oauthbearer.client.credentials.client.id.",
        ),
        Setting(
            "sasl.oauthbearer.clock.skew.seconds",
            Kind.INT,
            "Seconds by which the identity provider's clock may be ahead of this node's.",
            at_least(0),
        ),
        Setting(_AUDIENCE, Kind.LIST, "The audiences one of which a token must name; needed with OAUTHBEARER."),
        Setting(_ISSUER, Kind.STRING, "The issuer that a token must name; needed with OAUTHBEARER."),
        Setting(
            "sasl.oauthbearer.groups.claim.name",
            Kind.STRING,
            "The claim of a token that lists its user's groups, about which there may be rules of access (Group:NAME). Not Kafka's.",
        ),
        Setting(
            "sasl.oauthbearer.jwks.endpoint.refresh.ms",
            Kind.LONG,
            "Milliseconds after which the identity provider's keys are fetched again.",
            at_least(1),
        ),
        Setting(
            "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
            Kind.LONG,
            "Most milliseconds between two fetches of keys that failed, or that tokens with unknown keys asked for.",
            at_least(1),
        ),
        Setting(
            "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
            Kind.LONG,
            "Least milliseconds between two such fetches; twice as many each time.",
            at_least(1),
        ),
        Setting(
            _KEYS,
            Kind.STRING,
            "The identity provider's public keys (JWKS): https://… or file:///…; needed with OAUTHBEARER.",
        ),
        Setting(
            _RETRIEVER,
            Kind.CLASS,
            "Held against what this release can do: tokens from a file or by a client's credentials.",
            _stands_for("DefaultJwtRetriever", "FileJwtRetriever", "ClientCredentialsJwtRetriever"),
        ),
        Setting(
            "sasl.oauthbearer.jwt.validator.class",
            Kind.CLASS,
            "Held against what this release can do: signatures and claims of tokens are checked.",
            _stands_for("DefaultJwtValidator", "BrokerJwtValidator"),
        ),
        Setting(
            "sasl.oauthbearer.scope",
            Kind.STRING,
            "The scope that this node asks the token endpoint for its tokens with.",
        ),
        Setting("sasl.oauthbearer.scope.claim.name", Kind.STRING, "The claim of a token that lists scopes."),
        Setting("sasl.oauthbearer.sub.claim.name", Kind.STRING, "The claim of a token that names its user."),
        Setting(
            TOKENS,
            Kind.STRING,
            "The place of this node's own tokens: an endpoint, https://…, or a file that holds one, file:///….",
        ),
        Setting(
            SERVER_HANDLER,
            Kind.CLASS,
            "Held against what this release can do: Kafka's own class that checks tokens against keys.",
            _stands_for("OAuthBearerValidatorCallbackHandler", "secured.OAuthBearerValidatorCallbackHandler"),
        ),
    )
}
"""The settings of OAUTHBEARER that have an effect."""

LOGIN_SETTINGS: Final = tuple(
    name
    for name in OAUTH_SETTINGS
    if name.startswith(("sasl.login.", "sasl.oauthbearer.client.", "sasl.oauthbearer.token."))
    or name in (_RETRIEVER, "sasl.oauthbearer.scope")
)
"""The settings that say how a client gets its tokens."""

_NO_ASSERTIONS: Final = (
    "this release gets no tokens by assertions; use a file with a token, or a client's name and password "
    "(sasl.oauthbearer.client.credentials.…)"
)

OAUTH_REFUSED: Final[dict[str, str]] = dict.fromkeys(
    (
        "sasl.oauthbearer.assertion.algorithm",
        "sasl.oauthbearer.assertion.claim.aud",
        "sasl.oauthbearer.assertion.claim.exp.seconds",
        "sasl.oauthbearer.assertion.claim.iss",
        "sasl.oauthbearer.assertion.claim.jti.include",
        "sasl.oauthbearer.assertion.claim.nbf.seconds",
        "sasl.oauthbearer.assertion.claim.sub",
        "sasl.oauthbearer.assertion.file",
        "sasl.oauthbearer.assertion.private.key.file",
        "sasl.oauthbearer.assertion.private.key.passphrase",
        "sasl.oauthbearer.assertion.template.file",
    ),
    _NO_ASSERTIONS,
)


class OauthError(FamilyError):
    """Settings of OAUTHBEARER do not go together."""


@dataclass(frozen=True, slots=True)
class OauthTexts:
    """The settings of OAUTHBEARER as they were given for one listener.

    Attributes:
        value: returns the value of a setting, None if it was not given.
        given: returns the name under which a setting was given.
        jaas: the name under which the login module is given.
        options: of the login module.
    """

    value: Callable[[str], Value | None]
    given: Callable[[str], str]
    jaas: str
    options: Mapping[str, str]


def read_oauth_terms(listener: str, texts: OauthTexts) -> OauthTerms:
    """Return the terms on which a listener believes tokens.

    Raises:
        OauthError: settings are missing, or do not go together.
    """
    for name in (SERVER_HANDLER, "sasl.oauthbearer.jwt.validator.class"):
        texts.value(name)
    missing = [name for name in (_KEYS, _ISSUER, _AUDIENCE) if not texts.value(name)]
    if missing:
        raise OauthError(
            texts.given(missing[0]),
            f"the listener {listener} serves OAUTHBEARER, and would believe any token without {', '.join(missing)}: the keys, the issuer "
            "and the audience are those of your identity provider (see its .well-known/openid-configuration)",
        )
    audiences = texts.value(_AUDIENCE)
    assert isinstance(audiences, tuple), "audiences are a list"
    keys = _place(texts, _KEYS)
    default = OauthTerms(keys, "", ())
    return OauthTerms(
        keys=keys,
        issuer=str(texts.value(_ISSUER)),
        audiences=audiences,
        tls=_tls(texts, keys),
        clock_skew_ms=_number(texts, "sasl.oauthbearer.clock.skew.seconds", default.clock_skew_ms // 1_000) * 1_000,
        subject_claim=_text(texts, "sasl.oauthbearer.sub.claim.name", default.subject_claim),
        scope_claim=_text(texts, "sasl.oauthbearer.scope.claim.name", default.scope_claim),
        groups_claim=_text(texts, "sasl.oauthbearer.groups.claim.name", ""),
        refresh_ms=_number(texts, "sasl.oauthbearer.jwks.endpoint.refresh.ms", default.refresh_ms),
        backoff_ms=_number(texts, "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", default.backoff_ms),
        backoff_max_ms=_number(texts, "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", default.backoff_max_ms),
    )


def read_oauth_login(listener: str, texts: OauthTexts) -> OauthLogin:
    """Return the terms on which this process gets tokens for log-ins at a listener of others.

    Raises:
        OauthError: settings are missing, or do not go together.
    """
    texts.value(LOGIN_HANDLER)
    if not texts.value(TOKENS):
        raise OauthError(
            texts.given(TOKENS),
            f"a log-in at the listener {listener} by OAUTHBEARER needs a token: give {TOKENS} the endpoint of your identity "
            "provider, https://…, or a file, file:///…",
        )
    source = _place(texts, TOKENS)
    retriever = texts.value(_RETRIEVER)
    if (retriever == _FILE_RETRIEVER and not source.path) or (retriever == _CLIENT_RETRIEVER and source.path):
        raise OauthError(texts.given(_RETRIEVER), f"it does not get tokens from {source}")
    client_id = _text(texts, "sasl.oauthbearer.client.credentials.client.id", texts.options.get("clientId", ""))
    secret = _text(texts, "sasl.oauthbearer.client.credentials.client.secret", texts.options.get("clientSecret", ""))
    if not source.path and not (client_id and secret):
        raise OauthError(
            texts.given("sasl.oauthbearer.client.credentials.client.id"),
            f"the endpoint {source} gives tokens for a client's name and password: give "
            "sasl.oauthbearer.client.credentials.client.id and sasl.oauthbearer.client.credentials.client.secret",
        )
    extensions = {
        name.removeprefix(_EXTENSION): value for name, value in texts.options.items() if name.startswith(_EXTENSION)
    }
    default = OauthLogin(source)
    return OauthLogin(
        source=source,
        client_id=client_id,
        client_secret=secret,
        scope=_text(texts, "sasl.oauthbearer.scope", texts.options.get("scope", "")),
        extensions=MappingProxyType(extensions),
        tls=_tls(texts, source),
        connect_timeout_ms=_number(texts, "sasl.login.connect.timeout.ms", default.connect_timeout_ms),
        read_timeout_ms=_number(texts, "sasl.login.read.timeout.ms", default.read_timeout_ms),
        backoff_ms=_number(texts, "sasl.login.retry.backoff.ms", default.backoff_ms),
        backoff_max_ms=_number(texts, "sasl.login.retry.backoff.max.ms", default.backoff_max_ms),
        refresh_factor=_part(texts, "sasl.login.refresh.window.factor", default.refresh_factor),
        refresh_jitter=_part(texts, "sasl.login.refresh.window.jitter", default.refresh_jitter),
        refresh_min_ms=_number(texts, "sasl.login.refresh.min.period.seconds", default.refresh_min_ms // 1_000) * 1_000,
        refresh_buffer_ms=_number(texts, "sasl.login.refresh.buffer.seconds", default.refresh_buffer_ms // 1_000)
        * 1_000,
    )


def read_tool_login(texts: Callable[[str], str | None]) -> OauthLogin:
    """Return the terms on which a command gets tokens.

    Args:
        texts: returns the text of a setting, None if it was not given.

    Raises:
        OauthError: settings are missing, malformed, or do not go together.
    """

    def value(name: str) -> Value | None:
        text = texts(name)
        try:
            return OAUTH_SETTINGS[name].parse(text) if text is not None and text.strip() else None
        except SettingError as error:
            raise OauthError(name, error.reason) from error

    options: Mapping[str, str] = MappingProxyType({})
    text = texts(_JAAS)
    if text is not None:
        jaas = importlib.import_module(_JAAS_MODULE)
        try:
            config = jaas.parse_jaas_config(text)
        except ValueError as error:
            raise OauthError(_JAAS, str(error)) from error
        if config.module is not jaas.LoginModule.OAUTHBEARER:
            raise OauthError(_JAAS, "its login module is not the one of OAUTHBEARER")
        options = config.options
    return read_oauth_login("of the brokers", OauthTexts(value, lambda name: name, _JAAS, options))


def _place(texts: OauthTexts, setting: str) -> WebPlace:
    try:
        return parse_web_place(str(texts.value(setting)))
    except ValueError as error:
        raise OauthError(texts.given(setting), str(error)) from error


def _tls(texts: OauthTexts, place: WebPlace) -> TlsPolicy | None:
    """The terms of connections to an endpoint, by the login module's options; others than those that have an effect are refused.

    One login module may stand for both sides of a listener, so that the options of a client are no fault at a server.
    """
    for name in texts.options:
        if name not in _CREDENTIALS and name not in CLIENT_TLS_SETTINGS and not name.startswith(_EXTENSION):
            reason = "tokens without a signature prove nothing" if name.startswith("unsecured") else "it has no effect"
            raise OauthError(texts.jaas, f"the option {name}: {reason}; remove it")
    if place.path:
        return None
    try:
        return read_client_tls_policy(texts.options.get)
    except TlsError as error:
        raise OauthError(texts.jaas, f"the option {error.name}: {error.reason}") from error


def _text(texts: OauthTexts, setting: str, default: str) -> str:
    value = texts.value(setting)
    return default if value is None else str(value)


def _number(texts: OauthTexts, setting: str, default: int) -> int:
    value = texts.value(setting)
    return value if isinstance(value, int) else default


def _part(texts: OauthTexts, setting: str, default: float) -> float:
    value = texts.value(setting)
    return float(value) if isinstance(value, int | float) else default
