import datetime as dt
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.schema.metadata.v1.response import MetadataResponse as MetadataResponseV1
from kio.schema.metadata.v10.response import MetadataResponse as MetadataResponseV10
from kio.schema.metadata.v13.response import MetadataResponse

from esp.protocol.errors import UnwritableError
from esp.protocol.reader import compile_reader
from esp.protocol.writer import compile_writer
from tests.unit.protocol.strategies import (
    GROUPS,
    entities,
    kio_bytes,
    kio_read,
    message_id,
    project,
    versions_of,
    wire_class,
)


def write(wire, model, value):
    parts = []
    compile_writer(wire, model)(parts.append, value)
    return b"".join(parts)


@pytest.mark.parametrize("group", GROUPS, ids=message_id)
@settings(max_examples=25)
@given(data=st.data())
def test_writes_the_bytes_that_kio_writes(group, data):
    model = wire_class(group)
    value = data.draw(entities(model))
    for older in versions_of(value, group):
        wire = type(older)
        expected = kio_bytes(older)
        assert write(wire, wire, older) == expected
        # the same from an object of the model's class, and back into one
        assert write(wire, model, value) == expected
        assert project(compile_reader(wire, model)(expected), wire) == older


def test_fields_that_the_model_lacks_are_written_with_their_defaults():
    value = MetadataResponse(throttle_time=dt.timedelta(0), brokers=(), topics=(), error_code=ErrorCode.none)
    encoded = write(MetadataResponseV10, MetadataResponse, value)
    assert kio_read(MetadataResponseV10, encoded).cluster_authorized_operations == -(2**31)


def test_any_object_with_the_names_of_the_fields_is_written():
    broker = SimpleNamespace(node_id=1, host="h", port=9092, rack=None)
    value = SimpleNamespace(brokers=[broker], controller_id=1, topics=[])
    encoded = write(MetadataResponseV1, MetadataResponse, value)
    read = kio_read(MetadataResponseV1, encoded)
    assert (read.brokers[0].host, read.controller_id) == ("h", 1)


def test_null_where_none_may_be_is_our_mistake():
    value = SimpleNamespace(brokers=None, controller_id=1, topics=[])
    with pytest.raises(AssertionError, match="brokers"):
        write(MetadataResponseV1, MetadataResponse, value)


@pytest.mark.parametrize(
    "host", ["h" * 32_767, "h" * 32_768, "\N{EURO SIGN}" * 10_923], ids=["room", "none", "none in UTF-8"]
)
def test_a_text_for_which_an_old_version_has_no_room_is_not_written(host):
    broker = SimpleNamespace(node_id=1, host=host, port=9092, rack=None)
    value = SimpleNamespace(
        brokers=[broker],
        controller_id=1,
        topics=[],
        cluster_id=None,
        throttle_time=dt.timedelta(0),
        error_code=ErrorCode.none,
    )
    assert kio_read(MetadataResponse, write(MetadataResponse, MetadataResponse, value)).brokers[0].host == host
    if len(host.encode()) <= 32_767:
        assert kio_read(MetadataResponseV1, write(MetadataResponseV1, MetadataResponse, value)).brokers[0].host == host
        return
    with pytest.raises(UnwritableError, match=f"host has {len(host.encode())} bytes"):
        write(MetadataResponseV1, MetadataResponse, value)
