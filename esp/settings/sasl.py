"""The family of ``sasl.*`` settings: the terms on which each listener authenticates its clients (:class:`esp.model.sasl.SaslPolicy`).

A setting may be given for all listeners, with the prefix ``listener.name.NAME.`` for one, or with ``listener.name.NAME.MECHANISM.`` for one
mechanism of it; the longest prefix counts most. The texts of passwords are quoted nowhere.
"""

import importlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from esp.model.oauth import OauthTerms
from esp.model.sasl import SaslMechanism, SaslPolicy
from esp.model.sasl_login import SaslLogin
from esp.settings.oauth import (
    LOGIN_HANDLER,
    OAUTH_REFUSED,
    OAUTH_SETTINGS,
    SERVER_HANDLER,
    OauthError,
    OauthTexts,
    read_oauth_login,
    read_oauth_terms,
)
from esp.settings.setting import FamilyError, Kind, Setting, SettingError, Value, at_least, one_of
from esp.settings.tls import PREFIX, names_for

if TYPE_CHECKING:
    from esp.model.jaas import JaasConfig

_JAAS: Final = "esp.model.jaas"  # loaded only where a listener has SASL
_USER: Final = "user_"
"""The beginning of the options of PLAIN's login module that name users, with their passwords."""
_FROM_SCRAM: Final = "scram"
_NOT_SERVED: Final = ("GSSAPI",)
_LIFETIME_MS_MAX: Final = 100 * 365 * 24 * 3_600_000
"""The longest time of a log-in, a century: a message cannot tell every number of milliseconds that the setting can have."""
_MECHANISM_WORDS: Final = frozenset(
    name.lower() for name in (*(mechanism.value for mechanism in SaslMechanism), *_NOT_SERVED)
)
_MODULES: Final[Mapping[SaslMechanism, str]] = MappingProxyType(
    {
        SaslMechanism.PLAIN: "PLAIN",
        SaslMechanism.SCRAM_SHA_256: "SCRAM",
        SaslMechanism.SCRAM_SHA_512: "SCRAM",
        SaslMechanism.OAUTHBEARER: "OAUTHBEARER",
    }
)
"""The login module of each mechanism, by its name in :class:`esp.model.jaas.LoginModule`."""

BROKER_MECHANISM: Final = "sasl.mechanism.inter.broker.protocol"
CONTROLLER_MECHANISM: Final = "sasl.mechanism.controller.protocol"

SASL_SETTINGS: Final[dict[str, Setting]] = {
    setting.name: setting
    for setting in (
        Setting(
            "connection.failed.authentication.delay.ms",
            Kind.INT,
            "Milliseconds after which a failed log-in is answered; more, up to 5000, for an address that goes on failing. 0: at once.",
            at_least(0),
        ),
        Setting(
            "connections.max.reauth.ms",
            Kind.LONG,
            "Milliseconds for which a log-in counts; then the client logs in again, or its connection ends. 0: no limit.",
            at_least(0),
        ),
        Setting(
            "principal.builder.class",
            Kind.CLASS,
            "Held against what this release can do: principals are named as Kafka's default class names them.",
            one_of("org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"),
        ),
        Setting(
            "sasl.enabled.mechanisms",
            Kind.LIST,
            f"The mechanisms that clients may choose: {', '.join(mechanism.value for mechanism in SaslMechanism)}.",
        ),
        Setting(
            "sasl.jaas.config",
            Kind.PASSWORD,
            'A login module with its options, such as the users of PLAIN: …PlainLoginModule required user_alice="…";',
        ),
        Setting(
            CONTROLLER_MECHANISM,
            Kind.STRING,
            "The mechanism by which this node logs in at controllers: PLAIN, OAUTHBEARER, or on nodes that are no controllers SCRAM.",
        ),
        Setting(
            BROKER_MECHANISM,
            Kind.STRING,
            f"The mechanism by which this node logs in at other brokers: {', '.join(mechanism.value for mechanism in SaslMechanism)}.",
        ),
        Setting(
            "sasl.plain.credentials",
            Kind.STRING,
            "jaas: the passwords of PLAIN are those of sasl.jaas.config; scram: those of the users of SCRAM. Not Kafka's.",
            one_of("jaas", _FROM_SCRAM),
        ),
        Setting(
            "sasl.server.max.receive.size",
            Kind.INT,
            "Largest frame in bytes that is taken from a client before it is authenticated.",
            at_least(1),
        ),
        *OAUTH_SETTINGS.values(),
    )
}
"""The settings that make a listener's policy."""

_NO_CLASSES: Final = "this release loads no foreign classes"
_NO_KERBEROS: Final = "this release has no Kerberos (GSSAPI)"

SASL_REFUSED: Final[dict[str, str]] = {
    **dict.fromkeys(
        (
            "sasl.client.callback.handler.class",
            "sasl.login.class",
        ),
        _NO_CLASSES,
    ),
    **dict.fromkeys(
        (
            "sasl.kerberos.kinit.cmd",
            "sasl.kerberos.min.time.before.relogin",
            "sasl.kerberos.principal.to.local.rules",
            "sasl.kerberos.service.name",
            "sasl.kerberos.ticket.renew.jitter",
            "sasl.kerberos.ticket.renew.window.factor",
        ),
        _NO_KERBEROS,
    ),
    **OAUTH_REFUSED,
}


class SaslError(FamilyError):
    """Settings of this family do not go together."""


def unprefixed(name: str) -> str | None:
    """Return the setting of this family that a name with the prefix of a listener, or of a mechanism of it, gives; None if it is none."""
    if not name.startswith(PREFIX):
        return None
    rest = name[len(PREFIX) :].partition(".")[2]
    mechanism, _, setting = rest.partition(".")
    if mechanism not in _MECHANISM_WORDS:
        setting = rest
    return setting if setting in SASL_SETTINGS or setting in SASL_REFUSED else None


def read_sasl_policy(listener: str, texts: Callable[[str], str | None], timeout_ms: int) -> SaslPolicy:
    """Return the terms on which a listener authenticates its clients.

    Args:
        listener: its name.
        texts: returns the text of a setting that was given by exactly this name, None if it was not.
        timeout_ms: the time until a client must be authenticated.

    Raises:
        SaslError: a text is no value of its setting, or settings do not go together.
    """
    return _Reader(listener, texts).policy(timeout_ms)


def read_sasl_login(listener: str, texts: Callable[[str], str | None], mechanism_setting: str) -> SaslLogin:
    """Return the terms on which this node logs in at the listeners of other nodes.

    Args:
        listener: their name.
        texts: returns the text of a setting that was given by exactly this name, None if it was not.
        mechanism_setting: the setting that names the mechanism.

    Raises:
        SaslError: there is no mechanism that can be used, or no name or password for it.
    """
    return _Reader(listener, texts).login(mechanism_setting)


class _Reader:
    def __init__(self, listener: str, texts: Callable[[str], str | None]) -> None:
        self._listener = listener
        self._texts = texts

    def policy(self, timeout_ms: int) -> SaslPolicy:
        self._value("principal.builder.class")
        mechanisms = self._mechanisms()
        for mechanism in mechanisms:
            self._check_module(mechanism)
            self._check_handlers(mechanism)
        uses_scram = self._value("sasl.plain.credentials", SaslMechanism.PLAIN) == _FROM_SCRAM
        if SaslMechanism.PLAIN not in mechanisms:
            plain_users: Mapping[str, str] | None = MappingProxyType({})
        elif uses_scram:
            plain_users = None
        else:
            plain_users = self._plain_users()
        default = SaslPolicy("", ())
        return SaslPolicy(
            listener=self._listener,
            mechanisms=mechanisms,
            plain_users=plain_users,
            max_reauth_ms=MappingProxyType(
                {
                    mechanism: min(self._number("connections.max.reauth.ms", 0, mechanism), _LIFETIME_MS_MAX)
                    for mechanism in mechanisms
                }
            ),
            receive_bytes_max=self._number("sasl.server.max.receive.size", default.receive_bytes_max),
            failure_delay_ms=self._number("connection.failed.authentication.delay.ms", default.failure_delay_ms),
            timeout_ms=timeout_ms,
            oauth=self._oauth_terms() if SaslMechanism.OAUTHBEARER in mechanisms else None,
        )

    def _oauth_terms(self) -> OauthTerms:
        try:
            return read_oauth_terms(self._listener, self._oauth_texts())
        except OauthError as error:
            raise SaslError(error.name, error.reason) from error

    def _oauth_texts(self) -> OauthTexts:
        """The settings of tokens; the login module is Kafka's, and may be left out where it has no option."""
        mechanism = SaslMechanism.OAUTHBEARER
        jaas = self._given("sasl.jaas.config", mechanism)
        options: Mapping[str, str] = MappingProxyType({})
        for name in self._candidates("sasl.jaas.config", mechanism):
            text = self._texts(name)
            config = None if text is None else self._parse(name, text)
            if config is not None and config.module.name == _MODULES[mechanism]:
                jaas, options = name, config.options
                break
        return OauthTexts(
            lambda setting: self._value(setting, mechanism),
            lambda setting: self._given(setting, mechanism),
            jaas,
            options,
        )

    def _check_handlers(self, mechanism: SaslMechanism) -> None:
        """A class that is given for one mechanism must be that mechanism's: only OAUTHBEARER has one."""
        for setting in (SERVER_HANDLER, LOGIN_HANDLER):
            name = self._candidates(setting, mechanism)[0]
            if mechanism is not SaslMechanism.OAUTHBEARER and (self._texts(name) or "").strip():
                raise SaslError(name, f"{_NO_CLASSES}, and {mechanism.value} has none of Kafka's")
            self._value(setting, mechanism)

    def login(self, mechanism_setting: str) -> SaslLogin:
        served = {mechanism.value: mechanism for mechanism in SaslMechanism}
        word = (self._texts(mechanism_setting) or "").strip()
        mechanism = served.get(word)
        if mechanism is None:
            chosen = {"": "Kafka's default is GSSAPI, and " + _NO_KERBEROS, "GSSAPI": _NO_KERBEROS}
            reason = chosen.get(word, f"{word} is no mechanism that is known")
            raise SaslError(
                mechanism_setting,
                f"nodes log in at the listener {self._listener}: {reason}; name one of {', '.join(served)}",
            )
        if mechanism is SaslMechanism.OAUTHBEARER:
            return self._oauth_login()
        for name in self._candidates("sasl.jaas.config", mechanism):
            text = self._texts(name)
            if text is None:
                continue
            config = self._parse(name, text)
            if config.module.name != _MODULES[mechanism]:
                continue
            username, password = config.options.get("username"), config.options.get("password")
            if username and password:
                return SaslLogin(mechanism, username, password, is_token=config.is_by_token, setting=name)
        name = self._candidates("sasl.jaas.config", mechanism)[0]
        module = "PlainLoginModule" if mechanism is SaslMechanism.PLAIN else "ScramLoginModule"
        raise SaslError(
            self._given("sasl.jaas.config", mechanism),
            f"this node logs in at the listener {self._listener} by {mechanism.value} and has no name and password for it: give {name} a "
            f'{module} with username="…" and password="…"',
        )

    def _oauth_login(self) -> SaslLogin:
        texts = self._oauth_texts()
        try:
            oauth = read_oauth_login(self._listener, texts)
        except OauthError as error:
            raise SaslError(error.name, error.reason) from error
        username = oauth.client_id or f"the user of the token in {oauth.source.path}"
        return SaslLogin(SaslMechanism.OAUTHBEARER, username, "", setting=texts.jaas, oauth=oauth)

    def _mechanisms(self) -> tuple[SaslMechanism, ...]:
        name = "sasl.enabled.mechanisms"
        words = self._value(name)
        given = self._given(name)
        served = {mechanism.value: mechanism for mechanism in SaslMechanism}
        if not isinstance(words, tuple) or not words:
            raise SaslError(
                given,
                f"the listener {self._listener} authenticates by SASL and needs a mechanism: {', '.join(served)}",
            )
        for word in words:
            if word not in served:
                reason = _NO_KERBEROS if word in _NOT_SERVED else f"{word} is no mechanism that is known"
                raise SaslError(given, f"{reason}; there are {', '.join(served)}")
        return tuple(dict.fromkeys(served[word] for word in words))

    def _check_module(self, mechanism: SaslMechanism) -> None:
        """A login module that is given for one mechanism must be that mechanism's."""
        name = self._candidates("sasl.jaas.config", mechanism)[0]
        text = self._texts(name)
        if text is None:
            return
        config = self._parse(name, text)
        if config.module.name != _MODULES[mechanism]:
            raise SaslError(name, f"its login module is not the one of {mechanism.value}")

    def _plain_users(self) -> Mapping[str, str]:
        """The passwords of PLAIN by user."""
        for name in self._candidates("sasl.jaas.config", SaslMechanism.PLAIN):
            text = self._texts(name)
            if text is None:
                continue
            config = self._parse(name, text)
            users = {
                option.removeprefix(_USER): password
                for option, password in config.options.items()
                if option.startswith(_USER)
            }
            if config.module.name == "PLAIN" and users:
                return MappingProxyType(users)
        name = self._candidates("sasl.jaas.config", SaslMechanism.PLAIN)[0]
        raise SaslError(
            self._given("sasl.jaas.config", SaslMechanism.PLAIN),
            f"the listener {self._listener} serves PLAIN and knows no user: give {name} a PlainLoginModule with options like "
            'user_alice="…", or sasl.plain.credentials=scram',
        )

    def _parse(self, name: str, text: str) -> "JaasConfig":
        try:
            config: JaasConfig = importlib.import_module(_JAAS).parse_jaas_config(text)
        except ValueError as error:
            raise SaslError(name, str(error)) from error
        if config.module.is_kerberos:
            raise SaslError(name, _NO_KERBEROS)
        return config

    def _candidates(self, setting: str, mechanism: SaslMechanism | None = None) -> tuple[str, ...]:
        """Return the names under which a setting may be given; the first counts most."""
        names = names_for(self._listener, setting)
        if mechanism is None:
            return names
        return (f"{PREFIX}{self._listener.lower()}.{mechanism.value.lower()}.{setting}", *names)

    def _given(self, setting: str, mechanism: SaslMechanism | None = None) -> str:
        """Return the name under which a setting was given; its own if it was not."""
        return next((name for name in self._candidates(setting, mechanism) if self._texts(name) is not None), setting)

    def _value(self, setting: str, mechanism: SaslMechanism | None = None) -> Value | None:
        name = self._given(setting, mechanism)
        text = self._texts(name)
        if text is None or not text.strip():
            return None
        try:
            return SASL_SETTINGS[setting].parse(text)
        except SettingError as error:
            raise SaslError(name, error.reason) from error

    def _number(self, setting: str, default: int, mechanism: SaslMechanism | None = None) -> int:
        value = self._value(setting, mechanism)
        return value if isinstance(value, int) else default
