"""The rules and filters that options come to."""

import pytest

from esp.cli.acls.rules import (
    OPERATIONS,
    Roles,
    Subjects,
    bindings_of,
    filters_of,
    listing_filters,
    parse_operation,
    parse_pattern,
    resources_of,
    word_of,
)
from esp.model.acl import AclBinding, AclOperation, AclPermission, PatternType, ResourceType
from esp.model.acl_filter import ANY, MATCH
from esp.model.errors import OperatorError

NOBODY = Subjects((), ())
ALICE = Subjects(("User:alice",), ())
NO_ROLES = Roles()


def resources(topics=(), groups=(), ids=(), tokens=(), users=(), *, is_cluster=False, pattern=PatternType.LITERAL):
    named = {
        ResourceType.TOPIC: topics,
        ResourceType.GROUP: groups,
        ResourceType.TRANSACTIONAL_ID: ids,
        ResourceType.DELEGATION_TOKEN: tokens,
        ResourceType.USER: users,
    }
    return resources_of(named, is_cluster=is_cluster, pattern=pattern)


def in_words(rules):
    return {f"{rule.resource_type.name}:{rule.resource_name} {word_of(rule.operation)}" for rule in rules}


@pytest.mark.parametrize("text", ["DescribeConfigs", "describe_configs", "DESCRIBE-CONFIGS"])
def test_operations_are_written_in_several_ways(text):
    assert parse_operation(text) is AclOperation.DESCRIBE_CONFIGS


@pytest.mark.parametrize("operation", AclOperation)
def test_each_operation_has_a_word(operation):
    assert parse_operation(word_of(operation)) is operation


def test_a_producer_and_a_consumer_get_what_kafka_s_tool_gives_them():
    both = resources(["t"], ["g"], ["x"])
    assert in_words(bindings_of(both, [], Roles(produces=True, is_idempotent=True), ALICE, NOBODY)) == {
        *(f"TOPIC:t {each}" for each in ("Write", "Describe", "Create")),
        *(f"TRANSACTIONAL_ID:x {each}" for each in ("Write", "Describe")),
        "CLUSTER:kafka-cluster IdempotentWrite",
    }
    assert in_words(bindings_of(both, [], Roles(consumes=True), ALICE, NOBODY)) == {
        *(f"TOPIC:t {each}" for each in ("Read", "Describe")),
        "GROUP:g Read",
    }


def test_each_principal_is_paired_with_each_host_and_rules_come_once():
    rules = bindings_of(
        resources(["a", "a", "b"]),
        [AclOperation.READ],
        NO_ROLES,
        Subjects(("User:alice", "User:bob"), ("10.0.0.1", "10.0.0.2")),
        Subjects(("User:eve",), ()),
    )
    assert len(rules) == 2 * (2 * 2 + 1)
    denied = [rule for rule in rules if rule.permission is AclPermission.DENY]
    assert {(rule.principal, rule.host) for rule in denied} == {("User:eve", "*")}


def test_without_an_operation_a_rule_is_about_all():
    (rule,) = bindings_of(resources(["t"], pattern=PatternType.PREFIXED), [], NO_ROLES, ALICE, NOBODY)
    literal = AclPermission.ALLOW
    assert rule == AclBinding(
        ResourceType.TOPIC, "t", PatternType.PREFIXED, "User:alice", "*", AclOperation.ALL, literal
    )


@pytest.mark.parametrize(
    ("where", "operations", "roles", "allowed", "denied", "words"),
    [
        (resources(["t"]), [], NO_ROLES, NOBODY, NOBODY, "needs a principal"),
        ((), [], NO_ROLES, ALICE, NOBODY, "needs a resource"),
        (resources([], ["g"]), [], Roles(produces=True), ALICE, NOBODY, "--producer needs a topic"),
        (resources(["t"]), [], Roles(consumes=True), ALICE, NOBODY, "--consumer needs a topic and a group"),
        (resources(["t"]), [AclOperation.READ], Roles(produces=True), ALICE, NOBODY, "stand for their operations"),
        (resources(["t"]), [], Roles(produces=True), ALICE, ALICE, "--producer and --consumer allow"),
        (resources(["t"]), [AclOperation.CLUSTER_ACTION], NO_ROLES, ALICE, NOBODY, "no such operation on a topic"),
        (resources(is_cluster=True), [AclOperation.READ], NO_ROLES, ALICE, NOBODY, "no such operation on a cluster"),
    ],
)
def test_options_that_make_no_rule_are_refused(where, operations, roles, allowed, denied, words):
    with pytest.raises(OperatorError) as refused:
        bindings_of(where, operations, roles, allowed, denied)
    assert words in refused.value.problem


def test_every_operation_of_a_kind_is_taken():
    for kind, operations in OPERATIONS.items():
        where = {
            ResourceType.TOPIC: resources(["n"]),
            ResourceType.GROUP: resources([], ["n"]),
            ResourceType.TRANSACTIONAL_ID: resources([], [], ["n"]),
            ResourceType.DELEGATION_TOKEN: resources(tokens=["n"]),
            ResourceType.USER: resources(users=["n"]),
            ResourceType.CLUSTER: resources(is_cluster=True),
        }[kind]
        rules = bindings_of(where, operations, NO_ROLES, ALICE, NOBODY)
        assert [rule.operation for rule in rules] == list(operations)


def test_filters_select_the_rules_that_the_same_options_add():
    options = (resources(["t"], ["g"]), [], Roles(consumes=True), Subjects(("User:a", "User:b"), ("10.0.0.1",)), NOBODY)
    rules, filters = bindings_of(*options), filters_of(*options)
    assert len(rules) == len(filters)
    for rule, each in zip(rules, filters, strict=True):
        assert [other for other in rules if each.matches(other)] == [rule]


def test_without_principals_all_rules_of_a_resource_are_removed():
    (each,) = filters_of(resources(["t"], pattern=MATCH), [], NO_ROLES, NOBODY, NOBODY)
    assert (each.resource_name, each.pattern_type, each.principal, each.operation) == ("t", MATCH, None, ANY)


@pytest.mark.parametrize(
    ("where", "operations", "roles", "allowed", "words"),
    [
        ((), [], NO_ROLES, NOBODY, "--remove needs a resource"),
        (resources(["t"]), [AclOperation.READ], NO_ROLES, NOBODY, "all rules of a resource are removed"),
        (resources(["t"]), [], Roles(produces=True), NOBODY, "all rules of a resource are removed"),
        (resources(["t"]), [], NO_ROLES, Subjects((), ("10.0.0.1",)), "all rules of a resource are removed"),
    ],
)
def test_options_that_would_remove_more_than_they_say_are_refused(where, operations, roles, allowed, words):
    with pytest.raises(OperatorError) as refused:
        filters_of(where, operations, roles, allowed, NOBODY)
    assert words in refused.value.problem


def test_a_list_is_of_everything_or_of_resources_and_principals():
    (everything,) = listing_filters((), ())
    assert everything.resource_type == everything.pattern_type == ANY
    assert len(listing_filters(resources(["a", "b"]), ["User:x", "User:y"])) == 4


@pytest.mark.parametrize("text", ["any", "match", "neither"])
def test_patterns_of_filters_make_no_rules(text):
    with pytest.raises(OperatorError):
        parse_pattern(text, is_filter=False)


@pytest.mark.parametrize(("text", "pattern"), [("Prefixed", PatternType.PREFIXED), ("any", ANY), ("match", MATCH)])
def test_patterns_of_filters_are_known(text, pattern):
    assert parse_pattern(text, is_filter=True) == pattern
