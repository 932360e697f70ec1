"""What simulated clients ask for is what brokers read."""

import dataclasses
from random import Random

import pytest

from esp.protocol.headers import read_request_header
from esp.protocol.messages import decode_request, encode_request
from esp.protocol.registry import ApiKey
from esp.simulation.nodes_tier.profile import TopicProfile
from esp.simulation.workload import requests
from esp.simulation.workload.producer import Lane
from tests.unit.simulation.workload.scripted import TOPIC
from tests.unit.storage.helpers import TOPIC_ID

BATCH = Lane(TOPIC, TOPIC_ID, 2, "producer").make(Random(1), 7, -1, 0.0)
PROFILE = TopicProfile(TOPIC, 3, 2, 1, {"min.insync.replicas": "1"})


@pytest.mark.parametrize(
    ("api_key", "version", "request_"),
    [
        (ApiKey.METADATA, requests.METADATA_VERSION, requests.metadata([TOPIC])),
        (ApiKey.INIT_PRODUCER_ID, requests.INIT_PRODUCER_ID_VERSION, requests.init_producer_id()),
        (ApiKey.PRODUCE, requests.PRODUCE_VERSION, requests.produce(BATCH, 5.0)),
        (ApiKey.CREATE_TOPICS, requests.CREATE_TOPICS_VERSION, requests.create_topic(PROFILE, 5.0)),
        (ApiKey.DELETE_TOPICS, requests.DELETE_TOPICS_VERSION, requests.delete_topic(TOPIC, 5.0)),
    ],
)
def test_broker_reads_what_a_client_asks_for(api_key, version, request_):
    frame = encode_request(api_key, version, 1, "client", request_)[4:]
    header = read_request_header(frame)
    assert (header.api_key, header.api_version, header.client_id) == (api_key, version, "client")
    read = decode_request(api_key, version, frame[header.body_position :])
    fields = [field.name for field in dataclasses.fields(request_)]
    assert {name: getattr(read, name) for name in fields} == {name: getattr(request_, name) for name in fields}


def test_fetch_names_the_place_and_the_epoch_that_the_client_knows():
    request_ = requests.fetch(TOPIC_ID, 2, 40, leader_epoch=5, max_bytes=1000, wait_s=0.5)
    (part,) = request_.topics[0].partitions
    assert (part.partition, part.fetch_offset, part.current_leader_epoch) == (2, 40, 5)
    assert (request_.session_id, request_.session_epoch) == (0, -1)
