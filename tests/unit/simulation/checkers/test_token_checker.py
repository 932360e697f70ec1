"""Delegation tokens of nodes are held against what their owners were issued."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from esp.controller.image import ClusterImage
from esp.model.delegation_passwords import token_passwords
from esp.model.delegation_terms import DelegationTerms
from esp.model.delegation_token import DelegationToken
from esp.simulation.checkers import token_checker
from esp.simulation.checkers.token_checker import IssuedToken, TokenChecker, logs_in, renewed
from esp.simulation.checkers.violation import ViolationError

TERMS = DelegationTerms(key="one", accepted_key="two")
TOKEN = DelegationToken("t", "User:alice", "User:alice", (), 1_000, 9_000, 5_000)
ISSUED = IssuedToken(TOKEN, token_passwords(TERMS, "t")[0])


def image(offset, *tokens):
    return ClusterImage(offset=offset, delegation_tokens={token.token_id: token for token in tokens})


class Node:
    def __init__(self, number, image, wall_ms=2_000, terms=TERMS):
        self.node_id, self.name = number, f"node {number}"
        self.loader = SimpleNamespace(image=image)
        self.clock = SimpleNamespace(wall_ms=lambda: wall_ms)
        self.settings = SimpleNamespace(delegation_terms=terms)


@pytest.fixture(autouse=True)
def _probe(monkeypatch):
    monkeypatch.setattr(token_checker, "probe", SimpleNamespace(metadata_of=lambda node: node.loader))


def changed(node, issued=ISSUED, *others, latest_ms=0.0, **more):
    checker = TokenChecker(lambda: latest_ms)
    checker.on_changed(node, node.loader, issued, [node, *others], **more)
    return checker


@pytest.mark.parametrize("terms", [TERMS, DelegationTerms(key="two", accepted_key="one"), DelegationTerms(key="one")])
def test_token_counts_where_it_is_answered_whichever_secret_comes_first(terms):
    assert changed(Node(1, image(5, TOKEN), terms=terms)).judged == 1
    assert changed(Node(1, image(5), terms=terms), is_removed=True).judged == 1


@pytest.mark.parametrize(
    ("node", "issued", "is_removed", "problem"),
    [
        (Node(1, image(5)), ISSUED, False, "is gone at 5 before its time"),
        (Node(1, image(5, TOKEN)), ISSUED, True, "although it was removed"),
        (Node(1, image(5, replace(TOKEN, expiry_ms=6_000))), ISSUED, False, "has other terms"),
        (Node(1, image(5, TOKEN)), ISSUED._replace(password="another"), False, "does not let its bearer in"),
        (Node(1, image(5, TOKEN), terms=DelegationTerms(key="two")), ISSUED, False, "does not let its bearer in"),
        (Node(1, image(5, TOKEN)), renewed(ISSUED, 9_001), False, "ends later than it may"),
    ],
)
def test_change_that_does_not_count_there_is_found(node, issued, is_removed, problem):
    with pytest.raises(ViolationError, match=problem):
        changed(node, issued, is_removed=is_removed)


def test_expired_token_may_be_gone_and_lets_no_client_in(monkeypatch):
    gone, there = Node(2, image(5), 6_000), Node(3, image(5, TOKEN), 5_000)
    checker = changed(Node(1, image(5, TOKEN)), ISSUED, gone, there, latest_ms=5_001.0)
    assert (checker.counts_at(gone, "t"), checker.counts_at(there, "t")) == (False, False)
    monkeypatch.setattr(token_checker, "logs_in", lambda *what: what[3].password != "wrong")
    with pytest.raises(ViolationError, match=r"node 3.*although it was removed"):
        changed(Node(1, image(5, TOKEN)), ISSUED, there)


def test_other_nodes_follow_when_their_metadata_are_as_new():
    node, late = Node(1, image(5)), Node(2, image(4, TOKEN))
    checker = changed(node, ISSUED, late, is_removed=True)
    assert checker.counts_at(late, "t") is None
    late.loader = SimpleNamespace(image=image(5, TOKEN))
    with pytest.raises(ViolationError, match=r"node 2.*was removed"):
        changed(node, ISSUED, late, is_removed=True)


def test_log_in_that_is_not_as_it_must_be_is_found():
    node = Node(1, image(5, TOKEN))
    checker = changed(node)
    assert checker.counts_at(node, "t") is True
    checker.on_log_in(node, "t", (True, True), is_in=True)
    checker.on_log_in(node, "t", (True, False), is_in=False)
    checker.on_log_in(node, "t", (None, False), is_in=True)
    for is_in in (True, False):
        with pytest.raises(ViolationError):
            checker.on_log_in(node, "t", (not is_in, not is_in), is_in=is_in)


def test_nothing_is_asked_of_a_token_of_which_too_little_is_known():
    node = Node(1, image(5))
    checker = TokenChecker(lambda: 0.0)
    checker.on_changed(node, SimpleNamespace(image=image(5)), ISSUED, [node])
    checker.check_end(image(5), TERMS)
    checker = changed(Node(1, image(5, TOKEN)))
    checker.forget("t")
    checker.check_end(image(6), TERMS)
    assert checker.judged == 1


def test_tokens_are_described_to_their_owner_with_a_password_that_counts():
    other = ISSUED._replace(password=token_passwords(DelegationTerms(key="two"), "t")[0])
    node = Node(1, image(5, TOKEN))
    checker = changed(node)
    for described in (ISSUED, other):  # by the secret of the node that was asked
        checker.on_described(node, [ISSUED], [described])
    assert checker.judged == 3
    checker.on_described(Node(1, image(5, TOKEN), 5_000), [ISSUED], [])  # it has expired
    assert checker.judged == 3
    times = iter((4_999, 5_000))
    node.clock.wall_ms = lambda: next(times)
    checker.on_described(node, [ISSUED], [ISSUED])  # it expires between two readings of the clock
    assert checker.judged == 4


@pytest.mark.parametrize(
    ("described", "problem"),
    [
        ([], "is described to its owner as None"),
        ([renewed(ISSUED, 5_001)], "is described to its owner as"),
        ([ISSUED._replace(password="another")], "a password that is not its own"),
    ],
)
def test_tokens_that_are_described_otherwise_are_found(described, problem):
    node = Node(1, image(5, TOKEN))
    with pytest.raises(ViolationError, match=problem):
        changed(node).on_described(node, [ISSUED], described)


def test_end_is_held_against_all_that_was_told():
    checker = changed(Node(1, image(5, TOKEN)))
    checker.check_end(image(6, TOKEN), TERMS)
    with pytest.raises(ViolationError, match="before its time"):
        checker.check_end(image(6), TERMS)


def test_the_two_sides_of_a_log_in_agree():
    assert logs_in(image(1, TOKEN), 4_999, TERMS, ISSUED)
    assert not logs_in(image(1, TOKEN), 5_000, TERMS, ISSUED)
    assert not logs_in(image(1), 0, TERMS, ISSUED)
