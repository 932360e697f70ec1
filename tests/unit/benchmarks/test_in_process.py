"""A node without sockets, and the timing of its request path."""

import pytest

from benchmarks.client import CREATE_TOPICS_VERSION, METADATA_VERSION, create_topic_request
from benchmarks.in_process import running_node
from benchmarks.request_path import Repeater, make_requests
from esp.protocol.headers import read_response_header
from esp.protocol.messages import decode_response, encode_request
from esp.protocol.registry import ApiKey


@pytest.fixture
async def connection(tmp_path):
    async with running_node(tmp_path / "node") as network:
        yield network.new_connection()


async def test_a_request_is_answered_in_full(connection):
    request = encode_request(ApiKey.CREATE_TOPICS, CREATE_TOPICS_VERSION, 7, "test", create_topic_request("topic", 2))
    answer = await connection.ask(request)
    correlation_id, position = read_response_header(answer, ApiKey.CREATE_TOPICS, CREATE_TOPICS_VERSION)
    (topic,) = decode_response(ApiKey.CREATE_TOPICS, CREATE_TOPICS_VERSION, answer[position:]).topics
    assert correlation_id == 7
    assert (topic.name, topic.error_code, topic.num_partitions) == ("topic", 0, 2)


async def test_repeated_requests_take_time_and_are_answered(connection):
    repeater = Repeater(connection, make_requests()["metadata, 1 topic"])
    assert repeater.run(3) > 0
    answer = memoryview(b"".join(connection.answer))[4:]
    position = read_response_header(answer, ApiKey.METADATA, METADATA_VERSION)[1]
    assert len(decode_response(ApiKey.METADATA, METADATA_VERSION, answer[position:]).brokers) == 1
