"""One setting: its name, type and range, and the reading of its value from text. Types and refusals are worded as ``ConfigDef`` does."""

import math
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from enum import IntEnum
from typing import Any, Final, TypeVar

Value = bool | int | float | str | tuple[str, ...]
Check = Callable[[Value], None]
"""Raises SettingError for a value that its setting does not take."""

_INTEGER_LIMITS: Final = {"SHORT": 2**15, "INT": 2**31, "LONG": 2**63}
INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1
DOUBLE_MAX: Final = sys.float_info.max
_DOUBLE: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[dDfF]?")
_DIGITS_MAX: Final = len(str(2**63))
"""More are no number of any type; Python refuses to read thousands of them."""


class Kind(IntEnum):
    """Types of settings, by their numbers in DescribeConfigs."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Source(IntEnum):
    """The source of a setting's value, by its number in DescribeConfigs."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class SettingError(ValueError):
    """A text is no value of its setting.

    Args:
        reason: Kafka's words for why.
        shown: the value as Kafka shows it, if not the whole text.
    """

    def __init__(self, reason: str, shown: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.shown = shown


class FamilyError(Exception):
    """Settings of one family do not go together, or a text of it cannot be read.

    Args:
        name: the setting that is to be changed, as it was given.
        reason: why, without the texts of passwords.
    """

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(reason)
        self.name = name
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting whose values are checked.

    Attributes:
        name: Kafka's name, or ours where Kafka has no such setting.
        kind: its type.
        doc: one line for DescribeConfigs and messages.
        check: the conditions of a value beyond its type.
        served: further conditions of a new value; a value that stands in a metadata log already need not meet them.
        broker_name: of a topic's setting: the node's setting that counts where the topic has none of its own, None if there is none.
    """

    name: str
    kind: Kind
    doc: str
    check: Check | None = None
    served: Check | None = None
    broker_name: str | None = None

    @property
    def field(self) -> str:
        """The name of the field that declares it."""
        return self.name.replace(".", "_")

    def parse(self, text: str) -> Value:
        """Return the value that ``text``, given by a client or an operator, stands for.

        Raises:
            SettingError: it stands for none, or for one that this release does not serve.
        """
        value = self.parse_stored(text)
        if self.served is not None:
            self.served(value)
        return value

    def parse_stored(self, text: str) -> Value:
        """Return the value that ``text``, which stands in the metadata log, stands for: Kafka may have written it.

        Raises:
            SettingError: it stands for none.
        """
        value = _PARSERS[self.kind](text.strip())
        if self.check is not None:
            self.check(value)
        return value

    def refusal(self, text: str) -> str | None:
        """Return the words in which Kafka refuses ``text``, None if it is a value of this setting."""
        try:
            self.parse(text)
        except SettingError as error:
            shown = text if error.shown is None else error.shown
            return f"Invalid value {shown} for configuration {self.name}: {error.reason}"
        return None


Default = TypeVar("Default")

_DECLARED: Final = "setting"


def setting(
    default: Default,
    kind: Kind,
    doc: str,
    check: Check | None = None,
    served: Check | None = None,
    broker_name: str | None = None,
) -> Default:
    """Declare a field of a dataclass as the setting of its name, with dots for underscores; the arguments are those of :class:`Setting`."""
    declared: Default = field(
        default=default,
        repr=kind is not Kind.PASSWORD,
        metadata={_DECLARED: (kind, doc, check, served, broker_name)},
    )
    return declared


def declared_settings(settings: type[Any]) -> Iterator[Setting]:
    """The settings that a dataclass declares, in the order of its fields."""
    for each in fields(settings):
        if _DECLARED in each.metadata:
            yield Setting(each.name.replace("_", "."), *each.metadata[_DECLARED])


def at_least(least: float) -> Check:
    """Numbers from ``least`` on."""

    def check(value: Value) -> None:
        if _number(value) < least:
            raise SettingError(f"Value must be at least {least}", str(value))

    return check


def between(least: float, most: float) -> Check:
    """Numbers from ``least`` to ``most``."""

    def check(value: Value) -> None:
        if _number(value) < least:
            raise SettingError(f"Value must be at least {least}", str(value))
        if _number(value) > most:
            raise SettingError(f"Value must be no more than {most}", str(value))

    return check


def one_of(*allowed: str) -> Check:
    """One of some words, or a list of them."""

    def check(value: Value) -> None:
        for word in value if isinstance(value, tuple) else (value,):
            if word not in allowed:
                raise SettingError(f"String must be one of: {', '.join(allowed)}", str(word))

    return check


def _number(value: Value) -> float:
    assert isinstance(value, int | float), "a range belongs to a number"
    return value


def _parse_boolean(text: str) -> bool:
    word = text.lower()
    if word not in ("true", "false"):
        raise SettingError("Expected value to be either true or false")
    return word == "true"


def find_integer(text: str, limit: int = 2**31) -> int | None:
    """The number that a text is to Java: digits behind one sign or none, from ``-limit`` up to below ``limit``; None if it is none."""
    digits = (text[1:] if text[:1] in ("+", "-") else text).lstrip("0")
    is_zero = not digits and text[-1:] == "0"
    if not is_zero and not (digits.isascii() and digits.isdigit() and len(digits) <= _DIGITS_MAX):
        return None
    number = int(digits or "0") * (-1 if text[0] == "-" else 1)
    return number if -limit <= number < limit else None


def _parse_integer(kind: str) -> Callable[[str], int]:
    limit = _INTEGER_LIMITS[kind]

    def parse(text: str) -> int:
        number = find_integer(text, limit)
        if number is None:
            raise SettingError(f"Not a number of type {kind}")
        return number

    return parse


def _parse_double(text: str) -> float:
    """The number that a text is to Java, but for NaN and Infinity: no setting has a use for them, and no range excludes NaN."""
    number = float(text.rstrip("dDfF")) if _DOUBLE.fullmatch(text) else math.inf
    if not math.isfinite(number):
        raise SettingError("Not a number of type DOUBLE")
    return number


def _parse_list(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",")) if text else ()


_PARSERS: Final[dict[Kind, Callable[[str], Value]]] = {
    Kind.BOOLEAN: _parse_boolean,
    Kind.STRING: str,
    Kind.INT: _parse_integer("INT"),
    Kind.SHORT: _parse_integer("SHORT"),
    Kind.LONG: _parse_integer("LONG"),
    Kind.DOUBLE: _parse_double,
    Kind.LIST: _parse_list,
    Kind.CLASS: str,
    Kind.PASSWORD: str,
}
