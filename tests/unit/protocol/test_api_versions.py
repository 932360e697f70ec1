import struct

from kio.schema.api_versions.v0.response import ApiVersionsResponse
from kio.schema.errors import ErrorCode

from esp.protocol.api_versions import api_version_rows
from esp.protocol.messages import encode_unsupported_api_versions
from tests.unit.protocol.strategies import kio_read


def test_the_rows_are_the_advertised_versions_by_ascending_key():
    rows = [(row.api_key, row.min_version, row.max_version) for row in api_version_rows()]
    assert rows == sorted(rows)
    assert (0, 0, 13) in rows
    assert (1, 4, 18) in rows
    assert (18, 0, 4) in rows


def test_an_unsupported_version_of_api_versions_is_answered_in_version_0_with_its_own_row():
    frame = encode_unsupported_api_versions(42)
    assert struct.unpack_from(">ii", frame) == (len(frame) - 4, 42)
    answer = kio_read(ApiVersionsResponse, frame[8:])
    assert answer.error_code is ErrorCode.unsupported_version
    assert [(row.api_key, row.min_version, row.max_version) for row in answer.api_keys] == [(18, 0, 4)]
