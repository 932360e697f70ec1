"""One JSON text as Jackson reads it for Spark: numbers stay as they were written, and single quotes and NaN are taken."""

import json
import re
from typing import Any, Final, NoReturn

from esp.values.java_doubles import double_text

WHITESPACE: Final = " \t\r\n"


class Integer(str):
    """A number without a fraction or an exponent, as it was written."""

    __slots__ = ()


class Fraction(str):
    """A number with a fraction or an exponent as it was written, or ``NaN``, ``Infinity``, ``-Infinity``."""

    __slots__ = ()


class Members(list[tuple[str, Any]]):
    """The members of an object in their order; a name may stand more than once."""

    __slots__ = ()


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=Members, parse_float=Fraction, parse_int=Integer, parse_constant=Fraction
)
_STRING: Final = re.compile(r"""["]((?:[^"\\]|\\.)*)["]|[']((?:[^'\\]|\\.)*)[']""", re.DOTALL)
_QUOTE: Final = re.compile(r"""\\.|["]""", re.DOTALL)
_NON_NUMBERS: Final = ("NaN", "Infinity", "-Infinity")


def read_json(text: str) -> Any:
    """Return the first value of a text; what follows it is not looked at, as by Spark.

    Values are ``None``, ``bool``, ``str``, :class:`Integer`, :class:`Fraction`, lists, and :class:`Members`.

    Raises:
        ValueError: there is none.
    """
    stripped = text.lstrip(WHITESPACE)
    try:
        return _DECODER.raw_decode(stripped)[0]
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    except ValueError:
        if "'" not in stripped:
            raise
    return _DECODER.raw_decode(_STRING.sub(_in_double_quotes, stripped))[0]


def _in_double_quotes(found: re.Match[str]) -> str:
    """A text as JSON has it; Jackson takes an escaped single quote in either kind of quotes."""
    inner = found[1] if found[2] is None else found[2]
    return '"' + _QUOTE.sub(_escape, inner) + '"'


def _escape(found: re.Match[str]) -> str:
    return {"\\'": "'", '"': '\\"'}.get(found[0], found[0])


def write_json(value: Any) -> str:
    """The text of a value that Spark has for a column of type STRING: compact, doubles as Java writes them."""
    parts: list[str] = []
    _write(value, parts)
    return "".join(parts)


def _write(value: Any, parts: list[str]) -> None:
    if value is None:
        parts.append("null")
    elif isinstance(value, bool):
        parts.append("true" if value else "false")
    elif isinstance(value, Integer):
        parts.append("0" if value == "-0" else value)
    elif isinstance(value, Fraction):
        text = double_text(float(value))
        parts.append(f'"{text}"' if text in _NON_NUMBERS else text)
    elif isinstance(value, str):
        parts.append(_quoted(value))
    elif isinstance(value, Members):
        parts.append("{")
        for number, (name, member) in enumerate(value):
            parts.append("," * (number > 0) + _quoted(name) + ":")
            _write(member, parts)
        parts.append("}")
    elif isinstance(value, list):
        parts.append("[")
        for number, element in enumerate(value):
            parts.append("," * (number > 0))
            _write(element, parts)
        parts.append("]")
    else:
        _fail(value)


def _fail(value: object) -> NoReturn:
    raise AssertionError(f"a JSON reader made {type(value)}")


_ESCAPED: Final = re.compile(r'["\\\x00-\x1f]')
_ESCAPES: Final = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}


def _quoted(text: str) -> str:
    return '"' + _ESCAPED.sub(lambda found: _ESCAPES.get(found[0], f"\\u{ord(found[0]):04X}"), text) + '"'
