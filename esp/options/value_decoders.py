"""The decoders of values, as options have them. Only queries that decode values load this module."""

import numpy as np
import pyarrow as pa

from esp.options.errors import OptionError
from esp.options.registry import registry_of
from esp.options.value_columns import VALUE, Decoder, with_newest
from esp.options.value_options import ValueFormat, ValueOptions
from esp.values.avro_values import AvroDecoder, RegisteredDecoder
from esp.values.ddl import parse_ddl
from esp.values.decoded import Decoded
from esp.values.errors import SchemaError
from esp.values.json_values import JsonDecoder
from esp.values.times import require_zone


class TextDecoder:
    """Values as one column of text."""

    schema = pa.schema([(VALUE, pa.string())])

    def decode(self, values: pa.Array) -> Decoded:
        """Return the texts; bytes that are not UTF-8 become U+FFFD, as in Java."""
        try:
            texts = values.cast(pa.string())
        except pa.ArrowInvalid:
            shown = [None if value is None else value.decode("utf-8", "replace") for value in values.to_pylist()]
            texts = pa.array(shown, pa.string())
        return Decoded([texts], np.zeros(len(values), bool))


def open_decoder(options: ValueOptions) -> Decoder:
    """Return the decoder of a format that is not binary.

    Raises:
        OptionError: a schema or a time zone cannot be used.
        RegistryError: the newest schema is not to be had.
        MissingPackageError: values of the schema need fastavro, which is not installed.
    """
    if options.format is ValueFormat.STRING:
        return TextDecoder()
    return _open_json(options) if options.format is ValueFormat.JSON else _open_avro(options)


def _open_json(options: ValueOptions) -> JsonDecoder:
    assert options.schema is not None, "JSON has a schema"
    try:
        zone = require_zone(options.zone)
    except SchemaError as error:
        raise OptionError("timeZone", options.zone, str(error)) from error
    try:
        return JsonDecoder(parse_ddl(options.schema), zone)
    except SchemaError as error:
        raise OptionError("valueSchema", options.schema, str(error)) from error


def _open_avro(options: ValueOptions) -> Decoder:
    named = with_newest(options)
    assert named.schema is not None, "the columns of Avro have a schema"
    try:
        if options.registry is None:
            return AvroDecoder(named.schema)
        return RegisteredDecoder(named.schema, registry_of(options.registry).find_schema)
    except SchemaError as error:
        name = "valueSchema" if options.schema is not None else "schemaSubject"
        raise OptionError(name, options.schema or options.subject, str(error)) from error
