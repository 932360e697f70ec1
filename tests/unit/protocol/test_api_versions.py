import struct

import pytest
from kio.schema.api_versions.v0.response import ApiVersionsResponse
from kio.schema.errors import ErrorCode

from esp.protocol.messages import encode_unsupported_api_versions
from esp.protocol.registry import ApiKey, ListenerKind, api_version_rows
from tests.unit.protocol.strategies import kio_read


@pytest.mark.parametrize("kind", ListenerKind)
def test_the_rows_are_the_advertised_versions_by_ascending_key(kind):
    rows = [(row.api_key, row.min_version, row.max_version) for row in api_version_rows(kind, {})]
    assert rows == sorted(rows)
    assert (1, 4, 18) in rows
    assert (18, 0, 4) in rows


def test_a_listener_tells_of_what_it_serves_and_no_more():
    rows = {kind: {row.api_key for row in api_version_rows(kind, {})} for kind in ListenerKind}
    assert ApiKey.PRODUCE in rows[ListenerKind.BROKER] - rows[ListenerKind.CONTROLLER]
    assert ApiKey.VOTE in rows[ListenerKind.CONTROLLER] - rows[ListenerKind.BROKER]
    assert ApiKey.DESCRIBE_QUORUM in rows[ListenerKind.BROKER] & rows[ListenerKind.CONTROLLER]


def test_an_unsupported_version_of_api_versions_is_answered_in_version_0_with_its_own_row():
    frame = encode_unsupported_api_versions(42)
    assert struct.unpack_from(">ii", frame) == (len(frame) - 4, 42)
    answer = kio_read(ApiVersionsResponse, frame[8:])
    assert answer.error_code is ErrorCode.unsupported_version
    assert [(row.api_key, row.min_version, row.max_version) for row in answer.api_keys] == [(18, 0, 4)]
