"""Answers to requests that brokers pass on are held against the rule that was acknowledged before."""

import asyncio
from random import Random
from types import SimpleNamespace

import pytest

from esp.model.acl import AclPermission
from esp.model.errors import ErrorCode
from esp.protocol.registry import ApiKey
from esp.simulation.checkers.violation import ViolationError
from esp.simulation.workload.connection import NoAnswerError
from esp.simulation.workload.envelope_prober import ASKED_MAX, EnvelopeProber
from tests.unit.simulation.workload.scripted import new_history

HOST = "10.0.1.1"
DENIED, UNKNOWN = ErrorCode.topic_authorization_failed, ErrorCode.unknown_topic_or_partition


class Broker:
    """Answers changes of rules with ``made``, and requests to be passed on with ``code``."""

    def __init__(self, code, made=ErrorCode.none):
        self.code, self.made = code, made
        self.asked = []

    async def call(self, key, _version, request, _timeout_s):
        self.asked.append((key, request))
        if self.code is None and key is ApiKey.CREATE_PARTITIONS:
            raise NoAnswerError("silence")
        return SimpleNamespace(
            results=[SimpleNamespace(error_code=self.made if key is ApiKey.CREATE_ACLS else self.code)]
        )

    @property
    def keys(self):
        return [key for key, _ in self.asked]


def try_one(permission, code, **options):
    broker = Broker(code, **options)

    async def any_broker():
        return broker

    client = SimpleNamespace(name="envelope prober", any_broker=any_broker)
    prober = EnvelopeProber(client, Random(1), new_history(), HOST)
    asyncio.run(prober._try_one(permission))
    return prober, broker


@pytest.mark.parametrize(("permission", "code"), [(AclPermission.DENY, DENIED), (AclPermission.ALLOW, UNKNOWN)])
def test_a_rule_about_the_client_s_address_decides(permission, code):
    prober, broker = try_one(permission, code)
    assert 1 <= prober.judged <= ASKED_MAX
    assert broker.keys == [ApiKey.CREATE_ACLS, *[ApiKey.CREATE_PARTITIONS] * prober.judged, ApiKey.DELETE_ACLS]
    (creation,) = broker.asked[0][1].creations
    (deletion,) = broker.asked[-1][1].filters
    assert (creation.host, creation.permission_type) == (HOST, permission)
    assert (deletion.host_filter, deletion.resource_name_filter) == (HOST, creation.resource_name)
    assert broker.asked[1][1].validate_only


@pytest.mark.parametrize(
    ("permission", "code"),
    [(AclPermission.DENY, UNKNOWN), (AclPermission.DENY, ErrorCode.none), (AclPermission.ALLOW, DENIED)],
)
def test_an_answer_against_the_rule_is_found(permission, code):
    with pytest.raises(ViolationError, match="INV-ENVELOPE"):
        try_one(permission, code)


@pytest.mark.parametrize("permission", list(AclPermission))
def test_an_answer_that_decides_nothing_is_not_judged(permission):
    prober, _ = try_one(permission, ErrorCode.request_timed_out)
    assert prober.judged == 0
    with pytest.raises(NoAnswerError):
        try_one(permission, None)


def test_nothing_is_asked_under_a_rule_that_was_not_made():
    prober, broker = try_one(AclPermission.DENY, UNKNOWN, made=ErrorCode.request_timed_out)
    assert prober.judged == 0
    assert broker.keys == [ApiKey.CREATE_ACLS]
