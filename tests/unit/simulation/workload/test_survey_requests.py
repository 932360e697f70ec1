"""Whatever the surveyor and the mistaken client ask is a request of its version, which the node's own reader understands."""

import struct
from random import Random

import pytest

from esp.protocol.headers import read_request_header
from esp.protocol.messages import decode_request, encode_request
from esp.protocol.registry import SERVED
from esp.simulation.workload.mistaken_requests import MISTAKES
from esp.simulation.workload.survey_requests import QUESTIONS, Scene, build
from tests.unit.controller.samples import Cluster


def scene(seed, version):
    cluster = Cluster(3)
    cluster.create_partition(1, 2, 3)
    image = cluster.image
    return Scene(Random(seed), image, next(iter(image.topics_by_name.values())), version, ("/data",))


@pytest.mark.parametrize(
    ("question", "version"),
    [
        pytest.param(question, version, id=f"{question.key.name}-{version}-{question.content.__name__}")
        for question in dict.fromkeys((*QUESTIONS, *MISTAKES))
        for version in question.versions
    ],
)
def test_a_question_can_be_asked_in_each_version(question, version):
    for seed in range(12):
        message = build(question.key, version, question.content(scene(seed, version)))
        frame = encode_request(question.key, version, 7, "surveyor", message)
        assert struct.unpack_from(">i", frame)[0] == len(frame) - 4
        header = read_request_header(memoryview(frame)[4:])
        read = decode_request(question.key, version, memoryview(frame)[4 + header.body_position :])
        assert type(read).__name__ == SERVED[question.key].name + "Request"
