"""Scenes of EndTxn."""

from collections.abc import Iterator
from typing import Any, Final

from esp.protocol.registry import ApiKey
from tests.conformance.comparer.messages import Plain
from tests.conformance.comparer.scene import Scene
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
    timed_out,
)

_KEY: Final = ApiKey.END_TXN
_STATES: Final = {**STATES, "ongoing without partitions": empty_ongoing}
_WORDS: Final = {True: "commit", False: "abort"}


def ending(name: str, state: State, claim: Claim, *, commit: bool, **fields: Any) -> Scene:
    """A commit or an abort in a state, by a producer."""

    def play(target: Target, scene: str, version: int) -> Plain:
        application = Application(target, scene)
        state(application)
        producer_id, epoch = claim(application)
        return application.outcome(
            application.end(commit=commit, version=version, producer_id=producer_id, producer_epoch=epoch, **fields)
        )

    return Scene(f"{name}: {_WORDS[commit]}", _KEY, play)


def _cells() -> Iterator[Scene]:
    for commit in _WORDS:
        for state_name, state in _STATES.items():
            for claim_name, claim in (CLAIMS if commit else MAIN_CLAIMS).items():
                yield ending(f"{state_name}: {claim_name}", state, claim, commit=commit)
        for claim_name in ("current", "one less", "two less"):
            yield ending(f"timed out: {claim_name}", timed_out, CLAIMS[claim_name], commit=commit)
        yield ending("id of no bytes", empty, CLAIMS["current"], commit=commit, transactional_id="")
        yield ending("id of 32767 bytes", empty, CLAIMS["current"], commit=commit, transactional_id="x" * 32_767)


SCENES: Final[tuple[Scene, ...]] = tuple(_cells())
