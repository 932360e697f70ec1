"""Scenes of WriteTxnMarkers: markers of coordinators that were replaced, and of producers of the past and of the future."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from esp.protocol.registry import ApiKey
from tests.conformance.comparer.messages import Plain
from tests.conformance.comparer.scene import Scene
from tests.conformance.comparer.setup import EMPTY, MISSING, WRITTEN
from tests.conformance.comparer.target import Target
from tests.conformance.comparer.transactions.application import Application
from tests.conformance.comparer.transactions.partition import Partition
from tests.conformance.comparer.transactions.states import State
from tests.conformance.comparer.transactions.writing import written

_KEY: Final = ApiKey.WRITE_TXN_MARKERS
_VERSIONED_FROM: Final = 2
"""The first version in which a marker says by which transaction version it is to be checked."""
_COORDINATOR_EPOCH: Final = 5


def _unknown(application: Application) -> None:
    """A producer that the partition does not know."""
    application.begin()


def _marked(*, commit: bool) -> State:
    def make(application: Application) -> None:
        written()(application)
        marker = application.marker({WRITTEN: (0,)}, coordinator_epoch=_COORDINATOR_EPOCH, transaction_result=commit)
        answer = application.target.ask(_KEY, 1, {"markers": [marker]})
        assert "'none'" in str(answer), answer

    return make


def _open_again(application: Application) -> None:
    """A transaction is open, and the partition knows an epoch of the coordinator."""
    _marked(commit=True)(application)
    answer = application.write(9, application.batch(base_sequence=1))
    assert "'none'" in str(answer), answer


_STATES: Final[Mapping[str, State]] = {
    "unknown": _unknown,
    "open": written(),
    "open again": _open_again,
    "committed": _marked(commit=True),
    "aborted": _marked(commit=False),
}
_EPOCHS: Final[Mapping[str, Callable[[int], int]]] = {
    "epoch -1": lambda _: -1,
    "epoch one less": lambda epoch: epoch - 1,
    "same epoch": lambda epoch: epoch,
    "epoch one more": lambda epoch: epoch + 1,
    "last epoch": lambda _: 32_767,
}
_COORDINATORS: Final[Mapping[str, int]] = {
    "no coordinator epoch": -1,
    "older coordinator": _COORDINATOR_EPOCH - 1,
    "same coordinator": _COORDINATOR_EPOCH,
    "newer coordinator": _COORDINATOR_EPOCH + 1,
}
_TRANSACTION_VERSIONS: Final = (0, 1, 2, 3, 7, 127, -1)


def _cell(name: str, state: State, epoch: Callable[[int], int], first_version: int = 0, **fields: Any) -> Scene:
    def play(target: Target, scene: str, version: int) -> Plain:
        application = Application(target, scene)
        state(application)
        before = Partition(target)
        marker = application.marker(
            {WRITTEN: (0,)},
            **{"producer_epoch": epoch(application.epoch), "coordinator_epoch": _COORDINATOR_EPOCH, **fields},
        )
        answer = target.ask(_KEY, version, {"markers": [marker]})
        return {"answer": application.named(answer), "partition": before.outcome(application)}

    return Scene(name, _KEY, play, first_version)


def _places(name: str, topics: Mapping[str, Sequence[int]]) -> Scene:
    def play(target: Target, scene: str, version: int) -> Plain:
        application = Application(target, scene)
        written()(application)
        before = Partition(target)
        answer = target.ask(_KEY, version, {"markers": [application.marker(topics)]})
        return {"answer": application.named(answer), "partition": before.outcome(application)}

    return Scene(name, _KEY, play)


def _several() -> Scene:
    def play(target: Target, scene: str, version: int) -> Plain:
        applications = [Application(target, f"{scene}, {number}") for number in range(2)]
        before = Partition(target)
        for application in applications:
            written()(application)
        markers = [
            applications[0].marker({WRITTEN: (0,), MISSING: (0,)}),
            applications[1].marker({WRITTEN: (0,)}, producer_epoch=0),
            applications[1].marker({WRITTEN: (0,)}, transaction_result=False),
        ]
        answer = target.ask(_KEY, version, {"markers": markers})
        numbers = [application.producer_id for application in applications]
        named = [[numbers.index(marker["producer_id"]), marker["topics"]] for marker in answer["markers"]]
        return [sorted(named, key=str), [before.outcome(application) for application in applications]]

    return Scene("several", _KEY, play)


SCENES: Final[tuple[Scene, ...]] = (
    *(
        _cell(f"{state_name}: {epoch_name}: {coordinator_name}", state, epoch, coordinator_epoch=coordinator_epoch)
        for state_name, state in _STATES.items()
        for epoch_name, epoch in _EPOCHS.items()
        for coordinator_name, coordinator_epoch in _COORDINATORS.items()
    ),
    *(
        _cell(
            f"{state_name}: {epoch_name}: transaction version {transaction_version}",
            state,
            epoch,
            _VERSIONED_FROM,
            transaction_version=transaction_version,
            transaction_result=False,
        )
        for state_name, state in _STATES.items()
        for epoch_name, epoch in _EPOCHS.items()
        for transaction_version in _TRANSACTION_VERSIONS
    ),
    _cell("no producer id", _unknown, lambda _: 0, producer_id=-1),
    _cell("negative producer id", _unknown, lambda _: 0, producer_id=-2),
    _places("unknown topic", {MISSING: (0,)}),
    _places("unknown partitions among good ones", {WRITTEN: (0, 9, -1), MISSING: (0,), EMPTY: (0,)}),
    _places("no partition", {WRITTEN: ()}),
    _places("no topic", {}),
    _places("name that is none", {"": (0,), "a b": (0,)}),
    _places("offsets", {"__consumer_offsets": (0, 1, 2, 3)}),
    _places("states", {"__transaction_state": (1,)}),
    _several(),
)
