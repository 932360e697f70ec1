"""The value of ``sasl.jaas.config``, read as data: a login module's name and its options. No class is loaded by it.

``org.apache.kafka.common.security.plain.PlainLoginModule required username="admin" password="secret";`` is the form, as Kafka's
``JaasConfig`` reads it with Java's ``StreamTokenizer``. The differences: words that Java takes for numbers or for comments by accident are
refused, and so is a text in quotation marks that does not end. Errors name options and never quote their values, which are secrets.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import Final, NamedTuple


class LoginModule(Enum):
    """The login modules that are known, by the class names that Kafka and Java have for them."""

    PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
    SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
    OAUTHBEARER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
    KERBEROS = "com.sun.security.auth.module.Krb5LoginModule"
    KERBEROS_OF_IBM = "com.ibm.security.auth.module.Krb5LoginModule"

    @property
    def is_kerberos(self) -> bool:
        """True for a module that is known only so that it can be refused with the reason."""
        return self in (LoginModule.KERBEROS, LoginModule.KERBEROS_OF_IBM)


@dataclass(frozen=True, slots=True)
class JaasConfig:
    """One login module with its options. Its text shows no option, since most are secrets."""

    module: LoginModule
    options: Mapping[str, str] = field(repr=False)

    def option(self, name: str) -> str:
        """The value of an option.

        Raises:
            ValueError: it is not given.
        """
        value = self.options.get(name)
        if value is None:
            raise ValueError(f'the login module needs the option {name}="…"')
        return value

    @property
    def is_by_token(self) -> bool:
        """True if name and password are those of a delegation token (KIP-48)."""
        return self.module is LoginModule.SCRAM and self.options.get("tokenauth", "").lower() == "true"


class _Token(NamedTuple):
    """A word, a text that stood in quotation marks, or one of ``=`` and ``;``."""

    text: str
    at: int
    """Its first character, from 1 on."""
    is_mark: bool = False

    def is_sign(self, sign: str) -> bool:
        """True if it is this one of ``=`` and ``;``."""
        return self.is_mark and self.text == sign


_QUOTE_VALUES: Final = "a value that is not a plain word stands in quotation marks"
_CONTROL_FLAGS: Final = ("required", "requisite", "sufficient", "optional")
_CLASS_NAME: Final = re.compile(r"(?:[a-z_]\w*\.)+[A-Z]\w*")
_OPTION_NAME: Final = re.compile(r"username|password|tokenauth|user_.+|clientId|clientSecret|scope|ssl\..+")
"""The words that may be quoted as names: any other may be a part of a password that lacks its quotation marks."""
_SKIPPED: Final = re.compile(r"(?:[\x00-\x20]+|//[^\r\n]*|/\*.*?\*/)*", re.DOTALL)
_WORD: Final = re.compile(r"[A-Za-z_$\u00a0-\U0010ffff][A-Za-z0-9_$.\u00a0-\U0010ffff-]*")
_QUOTED: Final = re.compile(r'"((?:[^"\\\r\n]|\\.)*)"|\'((?:[^\'\\\r\n]|\\.)*)\'', re.DOTALL)
_ESCAPE: Final = re.compile(r"\\([0-3][0-7]{0,2}|[0-7]{1,2}|.)", re.DOTALL)
_ESCAPED: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def parse_jaas_config(text: str) -> JaasConfig:
    """Read the value of ``sasl.jaas.config``.

    Raises:
        ValueError: it is malformed, has no login module or more than one, or names one that is not known; the message says which, and
            quotes no value of an option, nor a word that may be part of one.
    """
    tokens = list(_tokens(text))
    if not tokens:
        raise ValueError("it names no login module")
    position = 0
    configs: list[JaasConfig] = []
    while position < len(tokens):
        config, position = _entry(tokens, position)
        configs.append(config)
    if len(configs) != 1:
        raise ValueError(f"it has {len(configs)} login modules, and must have one")
    return configs[0]


def _entry(tokens: list[_Token], position: int) -> tuple[JaasConfig, int]:
    """Read one login module with its options; the position behind it is returned too."""
    module = _module(tokens[position])
    position += 1
    flag = tokens[position] if position < len(tokens) else _Token("", 0, is_mark=True)
    if flag.is_mark or flag.text.lower() not in _CONTROL_FLAGS:
        raise ValueError(f"the control flag is missing behind {module.value}; write required")
    position += 1
    options: dict[str, str] = {}
    while position < len(tokens) and not tokens[position].is_sign(";"):
        key = tokens[position]
        if key.is_mark:
            raise ValueError("an option's name is missing")
        sign, value = (*tokens[position + 1 : position + 3], None, None)[:2]
        if sign is None or not sign.is_sign("=") or value is None or value.is_mark:
            if _OPTION_NAME.fullmatch(key.text):
                raise ValueError(f'the option {key.text} has no value; write {key.text}="…"')
            raise ValueError(f"the word at character {key.at} is no option with a value; {_QUOTE_VALUES}")
        options[key.text] = value.text
        position += 3
    if position == len(tokens):
        raise ValueError("the login module does not end with a semicolon")
    return JaasConfig(module, MappingProxyType(options)), position + 1


def _module(token: _Token) -> LoginModule:
    try:
        return LoginModule(token.text)
    except ValueError:
        known = ", ".join(module.value for module in LoginModule if not module.is_kerberos)
        found = f"the login module {token.text} is" if _CLASS_NAME.fullmatch(token.text) else "it begins with"
        raise ValueError(f"{found} none of {known}; no other class is loaded") from None


def _tokens(text: str) -> Iterator[_Token]:
    position = _after_blanks(text, 0)
    while position < len(text):
        character = text[position]
        if character in "=;":
            yield _Token(character, position + 1, is_mark=True)
            position += 1
        elif character in "\"'":
            quoted = _QUOTED.match(text, position)
            if quoted is None:
                raise ValueError(f"the quotation mark at character {position + 1} has no other one that ends its text")
            inner = quoted[1] if quoted[1] is not None else quoted[2]
            yield _Token(_ESCAPE.sub(_unescaped, inner), position + 1)
            position = quoted.end()
        else:
            word = _WORD.match(text, position)
            if word is None:
                raise ValueError(f"it cannot be read from character {position + 1} on; {_QUOTE_VALUES}")
            yield _Token(word[0], position + 1)
            position = word.end()
        position = _after_blanks(text, position)


def _after_blanks(text: str, position: int) -> int:
    match = _SKIPPED.match(text, position)
    assert match is not None
    return match.end()


def _unescaped(match: "re.Match[str]") -> str:
    escape = match[1]
    return chr(int(escape, 8)) if escape[0] in "01234567" else _ESCAPED.get(escape, escape)
