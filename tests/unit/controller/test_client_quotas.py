import math

import pytest

from esp.controller.client_quotas import QuotaAlteration, QuotaChange, decide_alter_client_quotas
from esp.controller.decision import BATCH_RECORDS_MAX
from esp.controller.image_difference import image_difference
from esp.model.client_quotas import client_alone, ip_alone, quota_entity, user_alone, user_and_client
from esp.model.errors import ErrorCode
from tests.unit.controller.samples import Cluster

RATE = "producer_byte_rate"


def alter(cluster, *alterations, validate_only=False):
    asked = [
        QuotaAlteration(entity, tuple(QuotaChange(key, value) for key, value in changes))
        for entity, changes in alterations
    ]
    return cluster.decide(decide_alter_client_quotas(cluster.image, asked, validate_only=validate_only))


def test_quotas_are_set_changed_and_removed():
    cluster = Cluster()
    before = cluster.image
    assert alter(cluster, (user_alone("a"), [(RATE, 5.0), ("request_percentage", 0.5)])) == [None]
    assert cluster.image.client_quotas == {user_alone("a"): {RATE: 5.0, "request_percentage": 0.5}}
    assert cluster.delta.has_other_quotas
    assert image_difference(before, cluster.image).has_other_quotas
    assert alter(cluster, (user_alone("a"), [(RATE, None)]), (client_alone(None), [(RATE, 7.0)])) == [None, None]
    assert cluster.image.client_quotas == {
        user_alone("a"): {"request_percentage": 0.5},
        client_alone(None): {RATE: 7.0},
    }
    alter(cluster, (user_alone("a"), [("request_percentage", None)]))
    assert cluster.image.client_quotas == {client_alone(None): {RATE: 7.0}}
    assert before.client_quotas == {}


def test_what_is_so_already_needs_no_record():
    cluster = Cluster()
    alter(cluster, (user_alone("a"), [(RATE, 5.0)]))
    decision = decide_alter_client_quotas(
        cluster.image,
        [
            QuotaAlteration(user_alone("a"), (QuotaChange(RATE, 5.0),)),
            QuotaAlteration(user_alone("b"), (QuotaChange(RATE, None),)),
        ],
        validate_only=False,
    )
    assert (decision.records, decision.reply) == ((), [None, None])


def test_validation_alone_changes_nothing():
    cluster = Cluster()
    assert alter(cluster, (user_alone("a"), [(RATE, 5.0)]), validate_only=True) == [None]
    assert cluster.image.client_quotas == {}


@pytest.mark.parametrize(
    ("entity", "key", "value", "text"),
    [
        ((), RATE, 1, "Invalid empty client quota entity"),
        (user_alone(""), RATE, 1, "Empty user not supported"),
        (quota_entity([("group", "g")]), RATE, 1, "Unhandled client quota entity type: group"),
        (
            quota_entity([("user", "a"), ("user", "b")]),
            RATE,
            1,
            "Invalid client quota entity, duplicate entity entry user",
        ),
        (
            quota_entity([("user", "a"), ("ip", "::1")]),
            "connection_creation_rate",
            1,
            "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId",
        ),
        (
            ip_alone("no address"),
            "connection_creation_rate",
            1,
            "no address is not a valid IP or resolvable host.",
        ),
        (ip_alone("::1"), RATE, 1, f"Invalid configuration key {RATE}"),
        (user_alone("a"), "connection_creation_rate", 1, "Invalid configuration key connection_creation_rate"),
        (user_alone("a"), RATE, 0, f"Quota {RATE} must be greater than 0"),
        (user_alone("a"), RATE, -1, f"Quota {RATE} must be greater than 0"),
        (user_alone("a"), "request_percentage", math.nan, "Quota request_percentage must be greater than 0"),
        (user_alone("a"), RATE, 1.5, f"{RATE} cannot be a fractional value."),
        (user_alone("a"), RATE, 1e19, f"Proposed value for {RATE} is too large for a LONG."),
        (
            user_alone("a"),
            "request_percentage",
            math.inf,
            "Proposed value for request_percentage is too large for a DOUBLE.",
        ),
        (
            ip_alone(None),
            "connection_creation_rate",
            2**31,
            "Proposed value for connection_creation_rate is too large for an INT.",
        ),
    ],
)
def test_refusals_are_kafkas_and_keep_the_entity_as_it_was(entity, key, value, text):
    cluster = Cluster()
    refused, made = alter(
        cluster, (entity, [("controller_mutation_rate", None), (key, float(value))]), (client_alone("c"), [(RATE, 1.0)])
    )
    assert (refused.code, refused.message) == (ErrorCode.invalid_request, text)
    assert made is None
    assert cluster.image.client_quotas == {client_alone("c"): {RATE: 1.0}}


def test_an_entity_or_a_key_that_is_named_twice_is_refused():
    cluster = Cluster()
    entity = user_and_client("a", None)
    words = "ClientQuotaEntity(entries={client-id=null, user=a})"
    first, second = alter(cluster, (entity, [(RATE, 1.0)]), (entity, [(RATE, 2.0)]))
    assert first.message == second.message == f"Ignoring duplicate entity {words}"
    (refused,) = alter(cluster, (entity, [(RATE, 1.0), (RATE, 2.0)]))
    assert refused.message == f"Ignoring duplicate entity {words}"
    assert cluster.image.client_quotas == {}


def test_too_many_changes_are_refused_as_a_whole():
    cluster = Cluster()
    many = [(client_alone(str(number)), [(RATE, 1.0)]) for number in range(BATCH_RECORDS_MAX + 1)]
    assert {error.code for error in alter(cluster, *many)} == {ErrorCode.policy_violation}
    assert cluster.image.client_quotas == {}
