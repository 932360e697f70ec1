"""Answers are held against the rules that were in force at the node while the request was under way."""

from types import SimpleNamespace

import pytest

from esp.controller.image import ClusterDelta, ClusterImage
from esp.model.acl import AclBinding, AclOperation, AclPermission, PatternType, ResourceType
from esp.simulation.checkers import access_checker
from esp.simulation.checkers.access_checker import PRINCIPAL, AccessChecker, is_allowed
from esp.simulation.checkers.violation import ViolationError

DENY = AclBinding(ResourceType.GROUP, "g", PatternType.LITERAL, PRINCIPAL, "*", AclOperation.READ, AclPermission.DENY)
OTHER = DENY._replace(resource_name="h")
HOST = "10.0.1.1"


class Loader:
    def __init__(self, *rules):
        self.callback = lambda image, delta: None
        self.image = ClusterImage()
        self.publish(*rules)

    def subscribe(self, callback):
        self.callback = callback
        callback(self.image, ClusterDelta(added_acls=tuple(self.image.acls.values())))

    def publish(self, *rules):
        self.image = ClusterImage(acls=dict(enumerate(rules)))
        self.callback(self.image, ClusterDelta(added_acls=rules))


class Node:
    node_id, name = 1, "node 1"

    def __init__(self, loader):
        self.loader = loader


@pytest.fixture(autouse=True)
def _probe(monkeypatch):
    monkeypatch.setattr(access_checker, "probe", SimpleNamespace(metadata_of=lambda node: node.loader))


def judge(node, *, is_denied, change=None):
    checker = AccessChecker()
    question = checker.ask(node, "g")
    if change is not None:
        change()
    checker.on_answer(question, HOST, is_denied=is_denied)
    return checker


@pytest.mark.parametrize(("rules", "is_denied"), [((), False), ((DENY,), True)])
def test_an_answer_is_that_of_the_rules(rules, is_denied):
    assert judge(Node(Loader(*rules)), is_denied=is_denied).judged == 1
    with pytest.raises(ViolationError, match="INV-AUTHZ"):
        judge(Node(Loader(*rules)), is_denied=not is_denied)


@pytest.mark.parametrize("is_denied", [False, True])
def test_rules_that_change_meanwhile_may_count_or_not(is_denied):
    loader = Loader()
    assert judge(Node(loader), is_denied=is_denied, change=lambda: loader.publish(DENY)).judged == 1


def test_rules_of_another_group_that_come_meanwhile_change_nothing():
    loader = Loader(DENY)
    with pytest.raises(ViolationError):
        judge(Node(loader), is_denied=False, change=lambda: loader.publish(DENY, OTHER))


def test_what_came_of_a_later_moment_is_held_against_the_rules_of_that_moment():
    loader = Loader()
    checker, node = AccessChecker(), Node(loader)
    question = checker.ask(node, "g")
    before = checker.moment()
    loader.publish(DENY)
    checker.on_answer(question, HOST, is_denied=False, since=[before])
    with pytest.raises(ViolationError, match="allowed READ on GROUP g"):
        checker.on_answer(question, HOST, is_denied=False, since=[checker.moment()])


def test_the_answer_of_another_process_is_not_judged():
    node = Node(Loader())

    def restart():
        node.loader = Loader(DENY)

    checker = judge(node, is_denied=True, change=restart)
    assert (checker.judged, checker.unjudged) == (0, 1)


def test_an_acknowledged_rule_is_in_force_at_the_node_that_answers():
    checker, node = AccessChecker(), Node(Loader())
    checker.ask(node, "g")
    with pytest.raises(ViolationError, match="an acknowledged rule is not in force"):
        checker.on_created(node, [DENY])


def test_a_removed_rule_is_not():
    checker, node = AccessChecker(), Node(Loader(DENY))
    checker.ask(node, "g")
    with pytest.raises(ViolationError, match="a removed rule is in force"):
        checker.on_removed(node, [DENY])


def test_a_node_that_answers_a_change_may_lack_those_of_rules_of_another_type():
    """They are made by another client, and their answers may have come from other nodes meanwhile."""
    checker, node = AccessChecker(), Node(Loader())
    checker.ask(node, "g")
    of_topics = OTHER._replace(resource_type=ResourceType.TOPIC)
    with pytest.raises(ViolationError, match="not in force"):
        checker.on_created(node, [DENY])
    checker.on_removed(node, [of_topics])
    with pytest.raises(ViolationError, match="not in force"):
        checker.on_removed(node, [OTHER])


def test_in_the_end_all_that_was_acknowledged_counts_and_nothing_else_does():
    checker, node = AccessChecker(), Node(Loader(DENY, OTHER))
    checker.on_created(node, [DENY, OTHER])
    checker.check_end(node.loader.image)
    checker.forget([OTHER])
    checker.check_end(ClusterImage(acls={1: DENY}))
    with pytest.raises(ViolationError, match="not in force"):
        checker.check_end(ClusterImage())


@pytest.mark.parametrize(
    ("rules", "allowed"),
    [
        ([], True),
        ([OTHER], True),
        ([DENY], False),
        ([DENY._replace(operation=AclOperation.WRITE)], False),
        ([DENY._replace(permission=AclPermission.ALLOW)], True),
        ([DENY._replace(permission=AclPermission.ALLOW, host="10.9.9.9")], False),
        ([DENY._replace(permission=AclPermission.ALLOW), DENY._replace(principal="User:*")], False),
        ([DENY._replace(principal="User:other"), DENY._replace(permission=AclPermission.ALLOW)], True),
        ([DENY._replace(resource_name="", pattern_type=PatternType.PREFIXED)], False),
        ([DENY._replace(resource_type=ResourceType.TOPIC)], True),
    ],
)
def test_the_checkers_own_reading_of_rules(rules, allowed):
    assert is_allowed(rules, "g", HOST) == allowed


@pytest.mark.parametrize(
    ("operation", "rule", "allowed"),
    [
        (AclOperation.WRITE, {"operation": AclOperation.WRITE}, True),
        (AclOperation.READ, {"operation": AclOperation.WRITE}, False),
        (AclOperation.READ, {"operation": AclOperation.ALL, "host": "10.0.0.0/8"}, True),
        (AclOperation.READ, {"operation": AclOperation.ALL, "host": "10.9.0.0/16"}, False),
        (AclOperation.READ, {"resource_type": ResourceType.GROUP, "operation": AclOperation.WRITE}, True),
    ],
)
def test_rules_of_topics_are_read_as_those_of_groups(operation, rule, allowed):
    allowing = DENY._replace(permission=AclPermission.ALLOW, resource_type=ResourceType.TOPIC)._replace(**rule)
    assert is_allowed([allowing], "g", HOST, ResourceType.TOPIC, operation) == allowed
