import pytest

from esp.controller.acls import AclCreation, check_acl_creation, decide_create_acls, decide_delete_acls
from esp.controller.decision import BATCH_RECORDS_MAX
from esp.controller.image_difference import image_difference
from esp.model.acl import AclBinding, AclOperation, AclPermission, PatternType, ResourceType
from esp.model.acl_filter import ANY, AclFilter
from esp.model.errors import ApiError, ErrorCode
from tests.unit.controller.samples import Cluster

READ = AclBinding(ResourceType.TOPIC, "t", PatternType.LITERAL, "User:a", "*", AclOperation.READ, AclPermission.ALLOW)
WRITE = READ._replace(operation=AclOperation.WRITE)
GROUP = READ._replace(resource_type=ResourceType.GROUP)
EVERYTHING = AclFilter(ANY, None, ANY, None, None, ANY, ANY)


def create(cluster, *asked):
    return cluster.decide(decide_create_acls(cluster.image, asked, cluster.random))


def delete(cluster, *filters):
    return cluster.decide(decide_delete_acls(cluster.image, filters))


def test_rules_come_into_force_once():
    cluster = Cluster()
    assert create(cluster, READ, WRITE, READ) == [None, None, None]
    assert list(cluster.image.acls.values()) == [READ, WRITE]
    assert cluster.delta.added_acls == (READ, WRITE)
    assert create(cluster, WRITE, GROUP) == [None, None]
    assert list(cluster.image.acls.values()) == [READ, WRITE, GROUP]
    assert (cluster.delta.added_acls, cluster.delta.removed_acls) == ((GROUP,), ())


def test_a_refused_creation_does_not_keep_the_others():
    cluster, refusal = Cluster(), ApiError(ErrorCode.invalid_request)
    assert create(cluster, READ, refusal, WRITE) == [None, refusal, None]
    assert list(cluster.image.acls.values()) == [READ, WRITE]


def test_each_filter_is_answered_with_what_it_selects():
    cluster = Cluster()
    create(cluster, READ, WRITE, GROUP)
    topics = EVERYTHING._replace(resource_type=ResourceType.TOPIC)
    reads = EVERYTHING._replace(operation=AclOperation.READ)
    nothing = EVERYTHING._replace(principal="User:b")
    assert delete(cluster, topics, reads, nothing) == [(READ, WRITE), (READ, GROUP), ()]
    assert not cluster.image.acls
    assert cluster.delta.removed_acls == (READ, WRITE, GROUP)


def test_a_rule_that_went_and_came_again_is_a_new_one():
    cluster = Cluster()
    create(cluster, READ)
    before = cluster.image
    (first,) = before.acls
    delete(cluster, EVERYTHING)
    create(cluster, READ)
    (second,) = cluster.image.acls
    assert first != second
    difference = image_difference(before, cluster.image)
    assert (difference.removed_acls, difference.added_acls) == ((READ,), (READ,))


def test_too_many_rules_change_nothing():
    cluster = Cluster()
    many = [READ._replace(resource_name=f"t{number}") for number in range(BATCH_RECORDS_MAX + 1)]
    assert {error.code for error in create(cluster, *many)} == {ErrorCode.policy_violation}
    assert not cluster.image.acls
    create(cluster, *many[:BATCH_RECORDS_MAX])
    create(cluster, *many[BATCH_RECORDS_MAX:])
    assert {error.code for error in delete(cluster, EVERYTHING)} == {ErrorCode.policy_violation}
    assert len(cluster.image.acls) == len(many)


def test_filters_that_select_the_same_rules_again_and_again_change_nothing():
    cluster = Cluster()
    create(cluster, *(READ._replace(resource_name=f"t{number}") for number in range(BATCH_RECORDS_MAX // 2)))
    refused = delete(cluster, EVERYTHING, EVERYTHING, EVERYTHING)
    assert [error.code for error in refused] == 3 * [ErrorCode.policy_violation]
    assert len(cluster.image.acls) == BATCH_RECORDS_MAX // 2
    assert [len(rules) for rules in delete(cluster, EVERYTHING, EVERYTHING)] == 2 * [BATCH_RECORDS_MAX // 2]
    assert not cluster.image.acls


VALID = AclCreation(2, "t", 3, "User:a", "*", 3, 3)


def test_the_numbers_of_a_creation_get_their_meaning():
    assert check_acl_creation(VALID) == READ
    cluster = VALID._replace(resource_type=4, resource_name="kafka-cluster")
    assert check_acl_creation(cluster).resource_type is ResourceType.CLUSTER
    assert check_acl_creation(VALID._replace(host="10.0.0.0/8")).host == "10.0.0.0/8"


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"resource_type": 0}, "Invalid resourceType UNKNOWN"),
        ({"resource_type": 1}, "Invalid resourceType ANY"),
        ({"pattern_type": 2}, "Invalid patternType MATCH"),
        ({"operation": 0}, "Invalid operation UNKNOWN"),
        ({"operation": 77}, "Invalid operation UNKNOWN"),
        ({"permission": 1}, "Invalid permissionType ANY"),
        ({"resource_name": ""}, "Invalid empty resource name"),
        ({"resource_type": 4}, "The only valid name for the CLUSTER resource is kafka-cluster"),
        ({"principal": "alice"}, "Could not parse principal from `alice`"),
        ({"host": "not-an-ip"}, "No client can have the host 'not-an-ip'"),
        ({"host": ""}, "No client can have the host ''"),
    ],
)
def test_a_creation_that_makes_no_rule_is_refused(change, text):
    with pytest.raises(ApiError, match=text) as refused:
        check_acl_creation(VALID._replace(**change))
    assert refused.value.code is ErrorCode.invalid_request
