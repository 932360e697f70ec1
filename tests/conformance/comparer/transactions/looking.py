"""Scenes of ListTransactions, DescribeTransactions and DescribeProducers."""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from esp.protocol.registry import ApiKey
from tests.conformance.comparer.messages import Plain
from tests.conformance.comparer.scene import Scene
from tests.conformance.comparer.setup import KEYED, MISSING, WRITTEN
from tests.conformance.comparer.target import Target
from tests.conformance.comparer.transactions.application import Application
from tests.conformance.comparer.transactions.states import STATES, State, empty, empty_ongoing, ongoing

_DURATION_FROM: Final = 1
_PATTERN_FROM: Final = 2
Filters = Callable[[Application], dict[str, Any]]

_FILTERS: Final[Mapping[str, tuple[int, Filters]]] = {
    "id": (0, lambda a: {"producer_id_filters": [a.producer_id]}),
    "id and others": (0, lambda a: {"producer_id_filters": [-1, a.producer_id, a.producer_id, 2**62]}),
    "another id": (0, lambda a: {"producer_id_filters": [2**62]}),
    "Ongoing": (0, lambda a: {"producer_id_filters": [a.producer_id], "state_filters": ["Ongoing"]}),
    "Empty and others": (
        0,
        lambda a: {
            "producer_id_filters": [a.producer_id],
            "state_filters": ["Empty", "PrepareCommit", "CompleteAbort", "Dead", "PrepareEpochFence"],
        },
    ),
    "unknown states": (
        0,
        lambda a: {"producer_id_filters": [a.producer_id], "state_filters": ["ongoing", "", "Ended"]},
    ),
    "unknown state and Ongoing": (
        0,
        lambda a: {"producer_id_filters": [a.producer_id], "state_filters": ["Ended", "Ongoing", "Ongoing"]},
    ),
    "long duration": (_DURATION_FROM, lambda a: {"producer_id_filters": [a.producer_id], "duration_filter": 3_600_000}),
    "no duration": (_DURATION_FROM, lambda a: {"producer_id_filters": [a.producer_id], "duration_filter": 0}),
    "negative duration": (_DURATION_FROM, lambda a: {"producer_id_filters": [a.producer_id], "duration_filter": -2}),
    "pattern": (_PATTERN_FROM, lambda a: {"transactional_id_pattern": re.escape(a.id)}),
    "pattern of a part": (
        _PATTERN_FROM,
        lambda a: {"producer_id_filters": [a.producer_id], "transactional_id_pattern": "List"},
    ),
    "pattern of all": (
        _PATTERN_FROM,
        lambda a: {"producer_id_filters": [a.producer_id], "transactional_id_pattern": "List.*"},
    ),
    "empty pattern": (
        _PATTERN_FROM,
        lambda a: {"producer_id_filters": [a.producer_id], "transactional_id_pattern": ""},
    ),
    "null pattern": (
        _PATTERN_FROM,
        lambda a: {"producer_id_filters": [a.producer_id], "transactional_id_pattern": None},
    ),
    **{
        f"pattern {pattern}": (
            _PATTERN_FROM,
            lambda a, pattern=pattern: {
                "producer_id_filters": [a.producer_id],
                "transactional_id_pattern": pattern,
            },
        )
        for pattern in ("(", "*", "a{2,1}", "\\", "[z-a]", "(?P<x>List).*", "(?i)list.*", "List(?=T).*", "(L)\\1.*")
    },
}


def _listing(name: str, state: State, filters: Filters, first_version: int) -> Scene:
    def play(target: Target, scene: str, version: int) -> Plain:
        application = Application(target, scene)
        state(application)
        return application.named(target.ask(ApiKey.LIST_TRANSACTIONS, version, filters(application)))

    return Scene(name, ApiKey.LIST_TRANSACTIONS, play, first_version)


def _describing(name: str, *others: str) -> Scene:
    def play(target: Target, scene: str, version: int) -> Plain:
        application = Application(target, scene)
        empty_ongoing(application)
        application.add(WRITTEN)
        ids = [other or application.id for other in others]
        answer = target.ask(ApiKey.DESCRIBE_TRANSACTIONS, version, {"transactional_ids": ids})
        for state in answer["transaction_states"]:
            state["has_started"] = state.pop("transaction_start_time") >= 0
        return application.named(answer)

    return Scene(name, ApiKey.DESCRIBE_TRANSACTIONS, play)


def _producers(name: str, topics: Mapping[str, tuple[int, ...]]) -> Scene:
    def play(target: Target, _: str, version: int) -> Plain:
        asked = [{"name": topic, "partition_indexes": list(numbers)} for topic, numbers in topics.items()]
        answer = target.ask(ApiKey.DESCRIBE_PRODUCERS, version, {"topics": asked})
        for topic in answer["topics"]:
            for partition in topic["partitions"]:
                partition["active_producers"] = bool(partition["active_producers"])
        return answer

    return Scene(name, ApiKey.DESCRIBE_PRODUCERS, play)


SCENES: Final[tuple[Scene, ...]] = (
    *(
        _listing(f"{state_name}: {name}", state, filters, first_version)
        for state_name, state in (("empty", empty), ("ongoing", ongoing))
        for name, (first_version, filters) in _FILTERS.items()
        if (state_name, name) != ("ongoing", "no duration")  # a matter of the clock
    ),
    *(
        _listing(f"{name}: id", state, _FILTERS["id"][1], 0)
        for name, state in STATES.items()
        if name not in ("unknown", "empty", "ongoing")
    ),
    _describing("known", ""),
    _describing("known and twice and unknown", "", "", MISSING),
    _describing("long", "x" * 32_767),
    _producers("internal", {"__transaction_state": (0,), "__consumer_offsets": (0, 99)}),
    _producers("twice", {WRITTEN: (0, 0), KEYED: (0,)}),
    _producers("negative", {WRITTEN: (-1,), MISSING: (0, 1)}),
)
