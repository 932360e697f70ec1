"""Scenes of AddPartitionsToTxn, from clients and from brokers, and of AddOffsetsToTxn."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from esp.protocol.registry import ApiKey
from tests.conformance.comparer.messages import Plain
from tests.conformance.comparer.scene import Scene
from tests.conformance.comparer.setup import EMPTY, MISSING, TRANSACTED
from tests.conformance.comparer.target import Target
from tests.conformance.comparer.transactions.application import Application
from tests.conformance.comparer.transactions.states import (
    CLAIMS,
    MAIN_CLAIMS,
    STATES,
    Claim,
    State,
    empty,
    empty_ongoing,
    ongoing,
)

_PARTITIONS: Final = ApiKey.ADD_PARTITIONS_TO_TXN
_OFFSETS: Final = ApiKey.ADD_OFFSETS_TO_TXN
_BROKERS_FROM: Final = 4
"""The first version of AddPartitionsToTxn for brokers."""

_STATES: Final = {**STATES, "ongoing without partitions": empty_ongoing}
_OFFSETS_TOPIC: Final = "__consumer_offsets"
_STATE_TOPIC: Final = "__transaction_state"
Topics = Mapping[str, Sequence[int]]

_ways: Final[Mapping[str, tuple[int, int, bool]]] = {
    "client": (0, _BROKERS_FROM - 1, False),
    "broker adds": (_BROKERS_FROM, 99, False),
    "broker verifies": (_BROKERS_FROM, 99, True),
}
"""First and last version, and whether it is only asked."""


def _adding(name: str, way: str, state: State, topics: Topics, claim: Claim, **fields: Any) -> Scene:
    first_version, last_version, verify_only = _ways[way]

    def play(target: Target, scene: str, version: int) -> Plain:
        application = Application(target, scene)
        state(application)
        producer_id, epoch = claim(application)
        content = application.adding(
            topics, verify_only=verify_only, producer_id=producer_id, producer_epoch=epoch, **fields
        )
        return application.outcome(target.ask(_PARTITIONS, version, content))

    return Scene(f"{way}: {name}", _PARTITIONS, play, first_version, last_version)


def _cells() -> Iterator[Scene]:
    for way in _ways:
        for state_name, state in _STATES.items():
            for claim_name, claim in CLAIMS.items():
                yield _adding(f"{state_name}: {claim_name}", way, state, {TRANSACTED: (0,)}, claim)


_LISTS: Final[Mapping[str, Topics]] = {
    "another partition": {TRANSACTED: (1,)},
    "both partitions": {TRANSACTED: (0, 1)},
    "another topic": {EMPTY: (0,)},
    "nothing": {},
    "no partition": {TRANSACTED: ()},
    "unknown topic": {MISSING: (0,)},
    "unknown topic among good ones": {TRANSACTED: (0, 1), MISSING: (0,), EMPTY: (1,)},
    "unknown partition among good ones": {TRANSACTED: (0, 9)},
    "negative partition": {TRANSACTED: (0, -1)},
    "offsets among good ones": {TRANSACTED: (0,), _OFFSETS_TOPIC: (0,)},
    "states among good ones": {TRANSACTED: (0,), _STATE_TOPIC: (0,)},
    "offsets and unknown": {TRANSACTED: (0,), _OFFSETS_TOPIC: (0, 999), MISSING: (0,)},
    "name that is none": {"": (0,), "a b": (0,), TRANSACTED: (0,)},
    "twice the same partition": {TRANSACTED: (1, 1)},
}


def _lists() -> Iterator[Scene]:
    for way in _ways:
        for state_name, state in (("empty", empty), ("ongoing", ongoing)):
            for name, topics in _LISTS.items():
                if way != "client" and not topics:
                    continue  # Kafka never answers a list without partitions
                yield _adding(f"{state_name}: {name}", way, state, topics, CLAIMS["current"])
        if way == "client":
            yield _adding("fenced: unknown topic", way, empty, {MISSING: (0,)}, CLAIMS["one less"])
        yield _adding("id of no bytes", way, empty, {TRANSACTED: (0,)}, CLAIMS["current"], transactional_id="")
        yield _adding(
            "id of 32767 bytes", way, empty, {TRANSACTED: (0,)}, CLAIMS["current"], transactional_id="x" * 32_767
        )


def _several() -> Scene:
    def play(target: Target, scene: str, version: int) -> Plain:
        first, second = (Application(target, f"{scene}, {number}") for number in range(2))
        ongoing(first)
        empty(second)
        contents = [each.adding({TRANSACTED: (0, 1), EMPTY: (0,)})["transactions"][0] for each in (first, second)]
        unknown = {**contents[0], "transactional_id": "no such id"}
        old = {**contents[0], "transactional_id": second.id, "verify_only": True}
        answers = [
            target.ask(_PARTITIONS, version, {"transactions": [*contents, unknown]}),
            target.ask(_PARTITIONS, version, {"transactions": [old]}),
        ]
        return [first.named(answers), second.named(first.settled()), second.named(second.settled())]

    return Scene("broker: several transactions", _PARTITIONS, play, _BROKERS_FROM)


def _offsets(name: str, state: State, claim: Claim, **fields: Any) -> Scene:
    def play(target: Target, scene: str, version: int) -> Plain:
        application = Application(target, scene)
        state(application)
        producer_id, epoch = claim(application)
        content = {
            "transactional_id": application.id,
            "producer_id": producer_id,
            "producer_epoch": epoch,
            "group_id": "g",
            **fields,
        }
        return application.outcome(target.ask(_OFFSETS, version, content))

    return Scene(name, _OFFSETS, play)


SCENES: Final[tuple[Scene, ...]] = (
    *_cells(),
    *_lists(),
    _several(),
    *(
        _offsets(f"{state_name}: {claim_name}", state, claim)
        for state_name, state in _STATES.items()
        for claim_name, claim in MAIN_CLAIMS.items()
    ),
    _offsets("no group", empty, CLAIMS["current"], group_id=""),
    _offsets("group of 32767 bytes", empty, CLAIMS["current"], group_id="x" * 32_767),
    _offsets("id of no bytes", empty, CLAIMS["current"], transactional_id=""),
)
