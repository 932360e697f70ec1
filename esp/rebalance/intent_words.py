"""Intents for a cluster's placement, parsed from words of the command line and written as such."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from esp.model.errors import OperatorError
from esp.model.ids import NodeId
from esp.placement.intents import Drain, Intent, Move, PlannedIntent, ReplicationFactor, Rollback, Spread, Swap

FORMS: Final = "spread [TOPIC ...] | drain BROKER ... | rf TOPIC=N | swap A=B | move TOPIC:P=LIST"


def parse_intent(words: Sequence[str]) -> PlannedIntent:
    """Read an intent.

    Raises:
        OperatorError: it is none; the word in question is named.
    """
    if not words:
        raise OperatorError("the kind of plan is missing", f"Write one of: {FORMS}")
    kind, *rest = words
    parse = _PARSERS.get(kind)
    if parse is None:
        raise OperatorError(f"{kind!r} is not a kind of plan", f"Write one of: {FORMS}")
    return parse(rest)


def intent_words(intent: Intent) -> str:
    """Return an intent as it is written on the command line; of a rollback what is taken back."""
    match intent:
        case Spread(topics):
            return " ".join(("spread", *(topics or ())))
        case Drain(brokers):
            return " ".join(("drain", *map(str, brokers)))
        case ReplicationFactor(topic, factor):
            return f"rf {topic}={factor}"
        case Swap(a, b):
            return f"swap {a}={b}"
        case Move(topic, partition, replicas):
            return f"move {topic}:{partition}={','.join(map(str, replicas))}"
        case Rollback(of):
            return f"rollback of {intent_words(of)}"


def _spread(words: Sequence[str]) -> Spread:
    return Spread(tuple(words) or None)


def _drain(words: Sequence[str]) -> Drain:
    if not words:
        raise OperatorError("drain names no broker", "Write drain BROKER.")
    return Drain(tuple(dict.fromkeys(_broker(word) for each in words for word in each.split(","))))


def _replication_factor(words: Sequence[str]) -> ReplicationFactor:
    topic, factor = _pair("rf", "TOPIC=N", words)
    if not factor.isdecimal() or int(factor) < 1:
        raise OperatorError(f"rf {words[0]}: {factor!r} is not a number of replicas", "Write rf TOPIC=N, N at least 1.")
    return ReplicationFactor(topic, int(factor))


def _swap(words: Sequence[str]) -> Swap:
    a, b = _pair("swap", "A=B", words)
    return Swap(_broker(a), _broker(b))


def _move(words: Sequence[str]) -> Move:
    name, replicas = _pair("move", "TOPIC:P=LIST", words)
    topic, _, partition = name.rpartition(":")
    if not topic or not partition.isdecimal():
        raise OperatorError(
            f"move {words[0]}: {name!r} is not a partition", "Write TOPIC:NUMBER, as in flights:0=1,2,3"
        )
    return Move(topic, int(partition), tuple(map(_broker, replicas.split(","))))


def _pair(kind: str, form: str, words: Sequence[str]) -> tuple[str, str]:
    """The two sides of the one word that there must be; the last ``=`` divides them."""
    if len(words) != 1:
        raise OperatorError(f"{kind} takes one {form}, not {len(words)}", f"Write {kind} {form}.")
    left, equals, right = words[0].rpartition("=")
    if not (left and equals and right):
        raise OperatorError(f"{kind} {words[0]}: not of the form {form}", f"Write {kind} {form}.")
    return left, right


def _broker(word: str) -> NodeId:
    if not word.isdecimal():
        raise OperatorError(f"{word!r} is not a broker id", "Brokers are named by their node.id, a number.")
    return NodeId(int(word))


_PARSERS: Final[Mapping[str, Callable[[Sequence[str]], PlannedIntent]]] = {
    "spread": _spread,
    "drain": _drain,
    "rf": _replication_factor,
    "swap": _swap,
    "move": _move,
}
