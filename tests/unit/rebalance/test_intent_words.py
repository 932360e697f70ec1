import pytest

from esp.model.errors import OperatorError
from esp.model.ids import NodeId
from esp.placement.intents import Drain, Move, ReplicationFactor, Rollback, Spread, Swap
from esp.rebalance.intent_words import intent_words, parse_intent


@pytest.mark.parametrize(
    ("words", "intent"),
    [
        ("spread", Spread()),
        ("spread a b", Spread(("a", "b"))),
        ("drain 1 3", Drain((NodeId(1), NodeId(3)))),
        ("rf a=b=3", ReplicationFactor("a=b", 3)),
        ("swap 1=4", Swap(NodeId(1), NodeId(4))),
        ("move a:b:2=3,1", Move("a:b", 2, (NodeId(3), NodeId(1)))),
    ],
)
def test_words_become_intents_and_words_again(words: str, intent: Spread) -> None:
    assert parse_intent(words.split()) == intent
    assert intent_words(intent) == words


def test_rollback_names_what_it_takes_back() -> None:
    assert intent_words(Rollback(Spread())) == "rollback of spread"


@pytest.mark.parametrize(
    "words",
    [
        *("", "dance", "drain", "drain x", "rf a", "rf a=0", "rf a=x", "rf a=1 b=2", "swap 1", "swap 1=x", "move a=1"),
        *("move a:x=1", "move a:0=", "move a:0=1,,2", "move :0=1"),
    ],
)
def test_other_words_are_refused(words: str) -> None:
    with pytest.raises(OperatorError):
        parse_intent(words.split())
