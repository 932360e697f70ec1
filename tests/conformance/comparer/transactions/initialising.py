"""Scenes of InitProducerId."""

from collections.abc import Iterator
from typing import Any, Final

from esp.protocol.registry import ApiKey
from tests.conformance.comparer.messages import Plain
from tests.conformance.comparer.scene import Scene
from tests.conformance.comparer.target import Target
from tests.conformance.comparer.transactions.application import TIMEOUT_MS, Application
from tests.conformance.comparer.transactions.states import CLAIMS, STATES, Claim, State, timed_out

_KEY: Final = ApiKey.INIT_PRODUCER_ID
_CLAIMS_FROM: Final = 3
"""The first version in which a request names a producer."""
_STATES: Final = {**STATES, "timed out": timed_out}
_MAX_TIMEOUT_MS: Final = TIMEOUT_MS


def _cell(name: str, state: State, claim: Claim, first_version: int) -> Scene:
    def play(target: Target, scene: str, version: int) -> Plain:
        application = Application(target, scene)
        state(application)
        producer_id, epoch = claim(application)
        return application.outcome(application.init(version, producer_id=producer_id, producer_epoch=epoch))

    return Scene(name, _KEY, play, first_version)


def _cells() -> Iterator[Scene]:
    for state_name, state in _STATES.items():
        for claim_name, claim in CLAIMS.items():
            first_version = 0 if claim_name == "neither" else _CLAIMS_FROM
            yield _cell(f"{state_name}: {claim_name}", state, claim, first_version)


def _twice(name: str, state: State, claim: Claim) -> Scene:
    """The same request once more: its answer may have been lost."""

    def play(target: Target, scene: str, version: int) -> Plain:
        application = Application(target, scene)
        state(application)
        producer_id, epoch = claim(application)
        answers = []
        for _ in range(3):
            answers.append(application.named(application.init(version, producer_id=producer_id, producer_epoch=epoch)))
            application.settled()
        return answers

    return Scene(f"{name} again and again", _KEY, play, _CLAIMS_FROM)


def _given(name: str, **fields: Any) -> Scene:
    """A request of an id that is not known."""

    def play(target: Target, scene: str, version: int) -> Plain:
        application = Application(target, scene)
        return application.named(application.init(version, **fields))

    return Scene(name, _KEY, play)


def _long(length: int) -> Scene:
    def play(target: Target, scene: str, version: int) -> Plain:
        application = Application(target, f"{scene} ".ljust(length, "x"))
        return application.outcome(application.init(version))

    return Scene(f"id of {length} bytes", _KEY, play)


def _changed_timeout(timeout_ms: int) -> Scene:
    def play(target: Target, scene: str, version: int) -> Plain:
        application = Application(target, scene)
        application.begin()
        return application.outcome(application.init(version, transaction_timeout=timeout_ms))

    return Scene(f"timeout {timeout_ms} of a known id", _KEY, play)


_TIMEOUTS: Final = (0, -1, -(2**31), 1, _MAX_TIMEOUT_MS, _MAX_TIMEOUT_MS + 1, 2**31 - 1)

SCENES: Final[tuple[Scene, ...]] = (
    *_cells(),
    *(
        _twice(f"{name}: {claim}", STATES[name], CLAIMS[claim])
        for name in ("empty", "ongoing", "committed", "committed (implicit)", "fenced")
        for claim in ("current", "one less")
    ),
    *(_given(f"timeout {timeout}", transaction_timeout=timeout) for timeout in _TIMEOUTS),
    *(_changed_timeout(timeout) for timeout in (0, 1, _MAX_TIMEOUT_MS + 1)),
    *(
        _given(f"idempotent: timeout {timeout}", transactional_id=None, transaction_timeout=timeout)
        for timeout in _TIMEOUTS
    ),
    *(
        _given(f"idempotent: {name}", transactional_id=None, producer_id=producer_id, producer_epoch=epoch)
        for name, producer_id, epoch in (
            ("producer", 4711, 3),
            ("no epoch", 4711, -1),
            ("no id", -1, 3),
            ("last epoch", 4711, 32767),
            ("negative", -2, -2),
        )
    ),
    _given("id of no bytes", transactional_id=""),
    _given("id of no bytes: timeout 0", transactional_id="", transaction_timeout=0),
    _long(1000),
    _long(32_767),
)
