"""Schemas in Spark's DDL, ``carrier STRING, delay INT``, as Arrow schemas. Spark's own parser needs its JVM, which executors have not."""

import re
from typing import Final, NoReturn

import pyarrow as pa

from esp.values.errors import SchemaError

_SIMPLE: Final[dict[str, pa.DataType]] = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "byte": pa.int8(),
    "smallint": pa.int16(),
    "short": pa.int16(),
    "int": pa.int32(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "long": pa.int64(),
    "float": pa.float32(),
    "real": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ltz": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "string": pa.string(),
    "binary": pa.binary(),
}
_DECIMALS: Final = ("decimal", "dec", "numeric")
_PRECISION_MOST: Final = 38
_PRECISION: Final = 10
"""Spark's precision of a decimal without one."""

_TOKEN: Final = re.compile(
    r"""\s*(?:(?P<quoted>`(?:[^`]|``)+`)|(?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")|(?P<word>\w+)|(?P<sign>[<>(),:]))"""
)


def parse_ddl(text: str) -> pa.Schema:
    """Return the columns of a schema. All may be null, as in Spark's ``from_json``: ``NOT NULL`` and comments are read and dropped.

    Args:
        text: ``name TYPE, …``, or one ``STRUCT<…>``.

    Raises:
        SchemaError: the text is no schema, names a type that values cannot have, or a column twice.
    """
    return _Parser(text).read_schema()


class _Parser:
    """Reads one text from its front."""

    def __init__(self, text: str) -> None:
        self._tokens = _split(text)
        self._at = 0

    def read_schema(self) -> pa.Schema:
        if self._next_is("struct") and self._following() == "<":
            kind = self._read_type()
            fields = [kind.field(number) for number in range(kind.num_fields)]
        else:
            fields = self._read_fields(None)
        if self._at < len(self._tokens):
            self._fail(f"{self._token()} stands where it should end")
        if not fields:
            self._fail("it names no column")
        return pa.schema(fields)

    def _read_fields(self, end: str | None) -> list[pa.Field]:
        fields: list[pa.Field] = []
        while self._token() not in ("", end):
            name = self._read_name()
            if self._next_is(":"):
                self._at += 1
            fields.append(pa.field(name, self._read_type()))
            self._pass_over_constraints()
            if self._next_is(","):
                self._at += 1
                if self._token() in ("", end):
                    self._fail("a column is missing behind the last comma")
            elif self._token() not in ("", end):
                self._fail(f"{self._token()} stands where a comma should be")
        _check_names(fields)
        return fields

    def _read_name(self) -> str:
        token = self._take("a column's name")
        if token[0] == "`":
            return token[1:-1].replace("``", "`")
        if not re.fullmatch(r"\w+", token):
            self._fail(f"{token} is no column's name: write it in backquotes")
        return token

    def _read_type(self) -> pa.DataType:
        word = self._take("a type").lower()
        if word in _DECIMALS:
            return self._read_decimal()
        if word == "array":
            self._expect("<")
            element = self._read_type()
            self._expect(">")
            return pa.list_(element)
        if word == "map":
            self._expect("<")
            key = self._read_type()
            self._expect(",")
            item = self._read_type()
            self._expect(">")
            return pa.map_(key, item)
        if word == "struct":
            self._expect("<")
            fields = self._read_fields(">")
            self._expect(">")
            return pa.struct(fields)
        if word not in _SIMPLE:
            known = ", ".join(name.upper() for name in (*_SIMPLE, "decimal", "array", "map", "struct"))
            self._fail(f"the type {word} is not known: write one of {known}")
        return _SIMPLE[word]

    def _read_decimal(self) -> pa.DataType:
        precision, scale = _PRECISION, 0
        if self._next_is("("):
            self._at += 1
            precision = self._read_number()
            if self._next_is(","):
                self._at += 1
                scale = self._read_number()
            self._expect(")")
        if not 1 <= precision <= _PRECISION_MOST or scale > precision:
            self._fail(
                f"decimal({precision},{scale}): write a precision of 1 to {_PRECISION_MOST}, and a scale up to it"
            )
        return pa.decimal128(precision, scale)

    def _read_number(self) -> int:
        token = self._take("a number")
        if not (token.isascii() and token.isdecimal()):
            self._fail(f"{token} stands where a number should be")
        return int(token)

    def _pass_over_constraints(self) -> None:
        if self._next_is("not") and self._following() == "null":
            self._at += 2
        if self._next_is("comment"):
            self._at += 1
            if self._take("a comment")[0] not in "'\"":
                self._fail("COMMENT is not followed by a text in quotes")

    def _token(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _following(self) -> str:
        return self._tokens[self._at + 1].lower() if self._at + 1 < len(self._tokens) else ""

    def _next_is(self, token: str) -> bool:
        return self._token().lower() == token

    def _take(self, what: str) -> str:
        token = self._token()
        if not token:
            self._fail(f"it ends where {what} should be")
        self._at += 1
        return token

    def _expect(self, sign: str) -> None:
        if not self._next_is(sign):
            self._fail(f"{self._token() or 'its end'} stands where {sign} should be")
        self._at += 1

    def _fail(self, problem: str) -> NoReturn:
        raise SchemaError(f"{problem}. A schema is written as in Spark: name STRING, count INT")


def _split(text: str) -> list[str]:
    tokens = []
    at, end = 0, len(text.rstrip())
    while at < end:
        found = _TOKEN.match(text, at)
        if found is None:
            raise SchemaError(
                f"{text[at:].strip()[:20]!r} cannot be read: write names with other characters than letters, digits and _ in backquotes"
            )
        tokens.append(found[0].strip())
        at = found.end()
    return tokens


def _check_names(fields: list[pa.Field]) -> None:
    """Names are told apart by case in JSON, and not by Spark's queries."""
    seen: set[str] = set()
    for field in fields:
        if field.name.lower() in seen:
            raise SchemaError(f"it names {field.name} twice (Spark does not tell cases apart): name each column once")
        seen.add(field.name.lower())
