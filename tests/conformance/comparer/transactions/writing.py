"""Scenes of Produce: batches of transactions, and batches that only look like them."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from esp.protocol.registry import ApiKey
from tests.conformance.comparer.messages import Plain
from tests.conformance.comparer.scene import Scene
from tests.conformance.comparer.setup import MISSING, MISSING_ID, POISONED, WRITTEN, batch
from tests.conformance.comparer.target import Target
from tests.conformance.comparer.transactions.application import Application
from tests.conformance.comparer.transactions.partition import Partition, relative
from tests.conformance.comparer.transactions.states import STATES, State, empty, timed_out

_KEY: Final = ApiKey.PRODUCE
_TOPIC_IDS_FROM: Final = 13
_IMPLICIT_FROM: Final = 12
_LAST_SEQUENCE: Final = 2**31 - 1

Make = Callable[[Application, int], dict[str, Any]]
"""The content of a request in a version."""


def _scene(name: str, state: State, make: Make, *, topic: str = WRITTEN) -> Scene:
    def play(target: Target, scene: str, version: int) -> Plain:
        application = Application(target, scene)
        state(application)
        content = make(application, version)
        before = [Partition(target, topic, number) for number in range(2 if topic == WRITTEN else 1)]
        answer = target.ask(_KEY, version, content)
        return {
            "answer": relative(answer, before),
            "afterwards": application.named(application.settled()),
            "partitions": {str(number): each.outcome(application) for number, each in enumerate(before)},
        }

    return Scene(name, _KEY, play)


def written(*topics: str, sequence: int = 0) -> State:
    """A transaction of an older client with one record, or as many as are needed to come to a sequence."""

    def make(application: Application) -> None:
        application.begin()
        assert "'none'" in str(application.add(*(topics or (WRITTEN,))))
        answer = application.write(9, application.batch(base_sequence=sequence))
        assert "'none'" in str(answer), answer

    return make


def _ended(*, commit: bool, version: int) -> State:
    def make(application: Application) -> None:
        written()(application)
        answer = application.end(commit=commit, version=version)
        assert answer["error_code"] == "none", answer
        application.refresh()

    return make


def added(application: Application) -> None:
    """A transaction of an older client without records."""
    application.begin()
    assert "'none'" in str(application.add(WRITTEN))


def _of(**header: Any) -> Make:
    return lambda application, version: application.producing(version, application.batch(**header))


def _old_epoch(fewer: int, **header: Any) -> Make:
    return lambda application, version: application.producing(
        version, application.batch(**{"producer_epoch": application.epoch - fewer, **header})
    )


def _with_id(transactional_id: str | None) -> Make:
    return lambda application, version: application.producing(
        version, application.batch(), transactional_id=transactional_id
    )


def _of_another(application: Application, version: int) -> dict[str, Any]:
    return application.producing(version, application.batch(), transactional_id=application.another().id)


def _two_producers(application: Application, version: int) -> dict[str, Any]:
    other = application.another()
    return application.producing(version, application.batch(), application.batch(producer_id=other.producer_id))


def _two_epochs(application: Application, version: int) -> dict[str, Any]:
    return application.producing(version, application.batch(), application.batch(producer_epoch=application.epoch - 1))


def _two_partitions(application: Application, version: int) -> dict[str, Any]:
    return application.producing(version, application.batch(), application.batch())


def _mixed(**header: Any) -> Make:
    return lambda application, version: application.producing(
        version, application.batch(), application.batch(transactional=False, **header)
    )


def _plain_beside(application: Application, version: int) -> dict[str, Any]:
    return application.producing(version, application.batch(), batch(1))


def _untold_beside_plain(application: Application, version: int) -> dict[str, Any]:
    return application.producing(version, application.batch(), batch(1), transactional_id=None)


def _with_missing(application: Application, version: int) -> dict[str, Any]:
    content = application.producing(version, application.batch())
    records = [{"index": 0, "records": application.batch()}, {"index": 9, "records": application.batch()}]
    topic = {"name": MISSING, "topic_id": MISSING_ID, "partition_data": records[:1]}
    content["topic_data"][0]["partition_data"] = records
    return {**content, "topic_data": [*content["topic_data"], topic]}


def _to_poisoned(application: Application, version: int) -> dict[str, Any]:
    return application.producing(version, application.batch(), topic=POISONED)


_NO_PRODUCER: Final[Mapping[str, int]] = {"producer_id": -1, "producer_epoch": -1, "base_sequence": -1}

_BATCHES: Final[Mapping[str, Make]] = {
    "batch": _of(),
    "two partitions": _two_partitions,
    "one replica": lambda a, v: a.producing(v, a.batch(), acks=1),
    "no transactional id": _with_id(None),
    "id of no bytes": _with_id(""),
    "unknown id": _with_id("no such id"),
    "id of another": _of_another,
    "id of 32767 bytes": _with_id("x" * 32_767),
    "no producer id": _of(**_NO_PRODUCER),
    "no producer id and no transactional id": lambda a, v: a.producing(
        v, a.batch(**_NO_PRODUCER), transactional_id=None
    ),
    "no epoch": _of(producer_epoch=-1),
    "negative epoch": _of(producer_epoch=-2),
    "no sequence": _of(base_sequence=-1),
    "epoch one less": _old_epoch(1),
    "epoch one more": _old_epoch(-1),
    "last epoch": _of(producer_epoch=32_767),
    "sequence 5": _of(base_sequence=5),
    "last sequence": _of(count=3, base_sequence=_LAST_SEQUENCE - 1),
    "control": _of(control=True),
    "control and not transactional": _of(control=True, transactional=False),
    "control and no producer": lambda a, v: a.producing(v, batch(1, control=True)),
    "two producers": _two_producers,
    "two epochs": _two_epochs,
    "not transactional": _of(transactional=False),
    "not transactional and no transactional id": lambda a, v: a.producing(
        v, a.batch(transactional=False), transactional_id=None
    ),
    "not transactional beside it": _mixed(),
    "plain beside it": _plain_beside,
    "plain beside it and no transactional id": _untold_beside_plain,
    "no producer id beside it": lambda a, v: a.producing(v, a.batch(), a.batch(**_NO_PRODUCER)),
    "unknown partitions beside it": _with_missing,
    "no bytes": lambda a, v: a.producing(v, b""),
}

_STATES: Final[Mapping[str, State]] = {
    "empty": empty,
    "added": added,
    "written": written(),
    "committed": _ended(commit=True, version=4),
    "aborted (implicit)": _ended(commit=False, version=5),
}

_AFTER: Final[Mapping[str, Make]] = {
    "next sequence": _of(base_sequence=1),
    "same again": _of(),
    "gap": _of(base_sequence=3),
    "old epoch and next sequence": _old_epoch(1, base_sequence=1),
    "old epoch and same again": _old_epoch(1),
}
"""Batches after a record of the transaction."""

SCENES: Final[tuple[Scene, ...]] = (
    *(
        _scene(f"{state_name}: {name}", state, make)
        for state_name, state in _STATES.items()
        for name, make in _BATCHES.items()
    ),
    *(
        _scene(f"{state_name}: {name}", _STATES[state_name], make)
        for state_name in ("written", "committed", "aborted (implicit)")
        for name, make in _AFTER.items()
    ),
    *(
        _scene(f"{state_name}: batch", state, _of())
        for state_name, state in {**STATES, "timed out": timed_out}.items()
        if state_name not in _STATES
    ),
    *(
        _scene(f"{state_name}: batch of the transaction", STATES[state_name], _to_poisoned, topic=POISONED)
        for state_name in ("committing", "aborting", "committing (implicit)", "aborting (implicit)")
    ),
    _scene("wrapped: next sequence", written(sequence=_LAST_SEQUENCE), _of(base_sequence=0)),
    _scene("wrapped: same again", written(sequence=_LAST_SEQUENCE), _of(base_sequence=_LAST_SEQUENCE)),
    _scene("wrapped: gap", written(sequence=_LAST_SEQUENCE), _of(base_sequence=1)),
)
