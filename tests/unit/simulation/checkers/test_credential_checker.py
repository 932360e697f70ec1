"""Credentials of nodes are held against the changes that were acknowledged."""

from types import SimpleNamespace

import pytest

from esp.controller.image import ClusterImage
from esp.model.scram import ScramMechanism
from esp.model.scram_keys import make_credential
from esp.simulation.checkers import credential_checker
from esp.simulation.checkers.credential_checker import CredentialChecker, Password, logs_in
from esp.simulation.checkers.violation import ViolationError

KEY = ("a", ScramMechanism.SCRAM_SHA_256)


def password(text):
    return Password(text, make_credential(KEY[1], text, b"salt", 4096))


FIRST, SECOND = password("first"), password("second")


def image(offset, **users):
    credentials = {(user, KEY[1]): known.credential for user, known in users.items()}
    return ClusterImage(offset=offset, scram_credentials=credentials)


class Node:
    def __init__(self, number, image):
        self.node_id, self.name = number, f"node {number}"
        self.loader = SimpleNamespace(image=image)


@pytest.fixture(autouse=True)
def _probe(monkeypatch):
    monkeypatch.setattr(credential_checker, "probe", SimpleNamespace(metadata_of=lambda node: node.loader))


def changed(node, what, *others, checker=None):
    checker = checker or CredentialChecker()
    checker.on_changed(node, node.loader, {KEY: what}, [node, *others])
    return checker


def test_a_change_counts_where_it_is_answered():
    assert changed(Node(1, image(5, a=FIRST)), FIRST).judged == 1
    assert changed(Node(1, image(5)), None).judged == 1


@pytest.mark.parametrize(
    ("found", "what", "problem"),
    [
        (image(5), FIRST, "does not log in by its password"),
        (image(5, a=SECOND), FIRST, "does not log in by its password"),
        (image(5, a=FIRST), None, "has a removed SCRAM-SHA-256 credential"),
    ],
)
def test_a_change_that_does_not_count_there_is_found(found, what, problem):
    with pytest.raises(ViolationError, match=problem):
        changed(Node(1, found), what)


def test_other_nodes_follow_when_their_metadata_are_as_new():
    node, late = Node(1, image(5)), Node(2, image(4, a=FIRST))
    checker = changed(node, None, late)
    late.loader = SimpleNamespace(image=image(5, a=FIRST))
    with pytest.raises(ViolationError, match=r"node 2.*has a removed"):
        checker.on_changed(node, node.loader, {("b", KEY[1]): None}, [node, late])


def test_another_process_has_answered_nothing():
    node = Node(1, image(5))
    checker = CredentialChecker()
    checker.on_changed(node, SimpleNamespace(image=image(5)), {KEY: FIRST}, [node])
    checker.on_changed(node, None, {KEY: FIRST}, [node])
    assert checker.judged == 0


def test_in_the_end_all_that_was_acknowledged_counts():
    checker = changed(Node(1, image(5, a=FIRST)), FIRST)
    checker.check_end(image(9, a=FIRST))
    with pytest.raises(ViolationError, match="the cluster"):
        checker.check_end(image(9))
    checker.forget([KEY])
    checker.check_end(image(9))


def test_a_log_in_is_by_the_last_password_only():
    assert logs_in(image(1, a=FIRST), *KEY, "first")
    assert not logs_in(image(1, a=FIRST), *KEY, "second")
    assert not logs_in(image(1, a=FIRST), "b", KEY[1], "first")
    assert not logs_in(image(1, a=FIRST), "a", ScramMechanism.SCRAM_SHA_512, "first")


def looks(checker, node, text):
    return checker.counts_at(node, KEY, text)


def test_the_answer_to_a_log_in_is_known_where_the_metadata_are_as_new():
    node, late = Node(1, image(5, a=FIRST)), Node(2, image(4))
    checker = changed(node, FIRST, late)
    assert (looks(checker, node, "first"), looks(checker, node, "second")) == (True, False)
    assert looks(checker, late, "first") is None
    node.loader = SimpleNamespace(image=image(6))
    changed(node, None, checker=checker)
    assert looks(checker, node, "first") is False
    assert checker.passwords == [(KEY, "first")]
    checker.forget([KEY])
    assert looks(checker, node, "first") is None
    assert checker.passwords == []


def test_the_last_passwords_are_tried():
    checker = CredentialChecker()
    for number in range(4):
        what = password(f"password {number}")
        changed(Node(1, image(number, a=what)), what, checker=checker)
    assert checker.passwords == [(KEY, "password 2"), (KEY, "password 3")]


@pytest.mark.parametrize(
    ("seen", "is_in", "problem"),
    [
        ((False, False, False), True, "although it was removed"),
        ((True, False, False), True, "although it was removed"),
        ((True, True, True), False, "is refused with its password"),
    ],
)
def test_an_answer_to_a_log_in_against_the_change_is_found(seen, is_in, problem):
    with pytest.raises(ViolationError, match=problem):
        CredentialChecker().on_log_in("node 1", KEY, seen, is_in=is_in)


@pytest.mark.parametrize(
    ("seen", "is_in", "judged"),
    [
        ((True, True, True), True, 1),
        ((False, False, False), False, 1),
        ((True, True, False), True, 1),
        ((True, True, False), False, 1),
        ((False, True, True), False, 1),
        ((None, False, False), False, 0),
        ((True, None, False), True, 0),
    ],
)
def test_a_log_in_during_a_change_may_go_either_way(seen, is_in, judged):
    checker = CredentialChecker()
    checker.on_log_in("node 1", KEY, seen, is_in=is_in)
    assert checker.judged_log_ins == judged
