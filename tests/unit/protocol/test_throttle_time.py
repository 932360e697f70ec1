"""The throttle time is put into the bytes of an answer where a reader of the answer finds it."""

import datetime as dt

import pytest

from esp.protocol.fetch_codec import encode_fetch_response
from esp.protocol.messages import decode_response, encode_response, load_class
from esp.protocol.produce_codec import ProduceResult, encode_produce_response
from esp.protocol.registry import SERVED, ApiKey
from esp.protocol.throttle_time import with_throttle_time
from tests.unit.protocol.hostile import example
from tests.unit.protocol.strategies import wire_class

OWN_CODECS = (ApiKey.PRODUCE, ApiKey.FETCH)
UNTOLD = {
    ApiKey.API_VERSIONS,
    ApiKey.CREATE_DELEGATION_TOKEN,
    ApiKey.RENEW_DELEGATION_TOKEN,
    ApiKey.EXPIRE_DELEGATION_TOKEN,
    ApiKey.DESCRIBE_DELEGATION_TOKEN,
}
"""The time is not put into these answers."""

VERSIONS = [
    (api.key, version)
    for api in SERVED.values()
    if api.key not in OWN_CODECS
    for version in range(api.min_version, api.max_version + 1)
]


def decode(key, version, frame):
    header = 8 + (version >= SERVED[key].flexible_from and key != ApiKey.API_VERSIONS)
    return decode_response(key, version, memoryview(frame)[header:])


@pytest.mark.parametrize(("key", "version"), VERSIONS)
def test_any_answer_with_the_field_gets_the_time_and_keeps_the_rest(key, version):
    api = SERVED[key]
    model = load_class(api, api.response_model(version), "response")
    frame = encode_response(key, version, 7, example(model))
    changed = with_throttle_time(key, version, frame, 1234)
    has_field = "throttle_time" in wire_class((key, version, "response")).__dataclass_fields__
    if not has_field or key in UNTOLD:
        assert changed == frame
        return
    before, after = decode(key, version, frame), decode(key, version, changed)
    assert after.throttle_time == dt.timedelta(milliseconds=1234)
    names = [name for name in type(before).__dataclass_fields__ if name != "throttle_time"]
    assert [getattr(after, name) for name in names] == [getattr(before, name) for name in names]


@pytest.mark.parametrize("version", range(SERVED[ApiKey.PRODUCE].min_version, SERVED[ApiKey.PRODUCE].max_version + 1))
@pytest.mark.parametrize("count", [1, 3])
def test_an_answer_to_produce_gets_it(version, count):
    topic = "t" if version < 13 else bytes(16)
    results = [ProduceResult(topic, number, 0, 5) for number in range(count)]
    changed = with_throttle_time(ApiKey.PRODUCE, version, encode_produce_response(version, 7, results), 1234)
    assert changed == encode_produce_response(version, 7, results, throttle_ms=1234)


@pytest.mark.parametrize("version", range(SERVED[ApiKey.FETCH].min_version, SERVED[ApiKey.FETCH].max_version + 1))
def test_an_answer_to_fetch_gets_it(version):
    head, *rest = encode_fetch_response(version, 7, ())
    changed = [with_throttle_time(ApiKey.FETCH, version, head, 2**40), *rest]
    assert changed == encode_fetch_response(version, 7, (), throttle_ms=2**31 - 1)
