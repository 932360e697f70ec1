import json

import pytest

from esp.cli.kafka.answers import ConsumedRecord
from esp.cli.record_formats import JsonFormat, LineFormat
from esp.model.errors import OperatorError

RECORD = ConsumedRecord("t", 3, 7, 1000, 0, (("h", b"1"), ("n", None)), b"key", b"value")
BARE = ConsumedRecord("t", 0, 0, -1, 0, (), None, None)
ALL = {f"print.{part}": "true" for part in ("timestamp", "partition", "offset", "headers", "key", "value")}


@pytest.mark.parametrize(
    ("properties", "record", "line"),
    [
        ({}, RECORD, b"value\n"),
        ({}, BARE, b"null\n"),
        (ALL, RECORD, b"CreateTime:1000\tPartition:3\tOffset:7\th:1,n:null\tkey\tvalue\n"),
        (ALL, BARE, b"NO_TIMESTAMP\tPartition:0\tOffset:0\tNO_HEADERS\tnull\tnull\n"),
        ({"print.timestamp": "true"}, RECORD._replace(timestamp_type=1), b"LogAppendTime:1000\tvalue\n"),
        ({"print.key": "true", "print.value": "false"}, RECORD, b"key\n"),
        ({"print.key": "true", "key.separator": "=", "line.separator": ";"}, RECORD, b"key=value;"),
        ({"print.headers": "true", "headers.separator": "|", "null.literal": "-"}, RECORD, b"h:1|n:-\tvalue\n"),
    ],
)
def test_lines_are_those_of_kafka_s_console_consumer(properties, record, line):
    assert LineFormat.from_properties(properties).format(record) == line


@pytest.mark.parametrize("properties", [{"print.kye": "true"}, {"print.key": "maybe"}])
def test_a_wrong_property_is_refused(properties):
    with pytest.raises(OperatorError, match=next(iter(properties))):
        LineFormat.from_properties(properties)


def test_json_keeps_all_of_a_record():
    assert json.loads(JsonFormat().format(RECORD._replace(value=b"\xff\x00"))) == {
        "topic": "t",
        "partition": 3,
        "offset": 7,
        "timestamp": 1000,
        "timestamp_type": "CreateTime",
        "headers": [["h", "1"], ["n", None]],
        "key": "key",
        "value": {"base64": "/wA="},
    }
