"""What a writer and a reader are told is judged; a record that was denied may not be there."""

from types import SimpleNamespace

import pytest

from esp.model.acl import AclOperation, ResourceType
from esp.model.errors import ErrorCode
from esp.simulation.checkers.access_checker import Question
from esp.simulation.checkers.violation import ViolationError
from esp.simulation.nodes_tier.ledger import GUARDED_TOPICS
from esp.simulation.workload.guarded_clients import GuardedTopics

HOST = "10.0.1.1"
DENIED = ErrorCode.topic_authorization_failed
QUESTION = Question(SimpleNamespace(name="node 1"), GUARDED_TOPICS[0], None, 0, ResourceType.TOPIC, AclOperation.WRITE)


class Checker:
    def __init__(self):
        self.answers = []

    def moment(self):
        return f"moment {len(self.answers)}"

    def on_answer(self, question, host, *, is_denied, since):
        assert (question, host) == (QUESTION, HOST)
        self.answers.append((is_denied, list(since)))


def _topics():
    checker = Checker()
    return checker, GuardedTopics(checker, None, None, (), HOST)


def test_records_are_held_against_the_rules_since_they_were_sent():
    checker, topics = _topics()
    number, value = topics.new_record()
    topics.on_written(QUESTION, ErrorCode.none, number, by_id=False)
    _, later = topics.new_record()
    topics.on_read(QUESTION, ErrorCode.none, b"batch " + value + later, by_id=False)
    assert checker.answers == [(False, []), (False, ["moment 0", "moment 1"])]
    assert (topics.allowed, topics.denied) == (2, 0)


def test_a_record_that_was_denied_may_not_be_there():
    checker, topics = _topics()
    number, value = topics.new_record()
    topics.on_written(QUESTION, DENIED, number, by_id=False)
    assert checker.answers == [(True, [])]
    with pytest.raises(ViolationError, match="INV-AUTHZ"):
        topics.on_read(QUESTION, ErrorCode.none, value, by_id=False)


def test_another_error_is_no_denial_and_tells_nothing_of_an_id_that_the_node_may_not_know():
    checker, topics = _topics()
    topics.on_read(QUESTION, ErrorCode.unknown_topic_id, b"", by_id=True)
    assert checker.answers == []
    topics.on_read(QUESTION, ErrorCode.not_leader_or_follower, b"", by_id=False)
    assert checker.answers == [(False, [])]
