"""Scenes of producers whose epochs are used up. The coordinators find their states in the log, where they were written while the brokers
were stopped: to come there by requests would take 32,000 of them for each scene.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from esp.protocol.registry import ApiKey
from esp.records.builder import NewRecord
from esp.schemas.transaction_record_codec import FLEXIBLE_VERSION, encode_transaction_key, encode_transaction_value
from esp.schemas.transaction_records import TransactionStatus, TransactionValue
from tests.conformance.comparer.messages import Plain
from tests.conformance.comparer.scene import Scene
from tests.conformance.comparer.setup import POISONED, TIMESTAMP_MS, TRANSACTED
from tests.conformance.comparer.target import Target
from tests.conformance.comparer.transactions.application import TIMEOUT_MS, Application, is_done, until
from tests.conformance.comparer.transactions.partition import Partition
from tests.conformance.comparer.transactions.states import CLAIMS, Claim, State
from tests.integration.offline_records import append_offline

LAST_EPOCH: Final = 32_766
_STATES_TOPIC: Final = "__transaction_state"

Ask = Callable[[Application, int, tuple[int, int]], Plain]
"""Sends the request of a scene, with a producer, in a version."""


def _ongoing(application: Application) -> None:
    assert "'none'" in str(application.add(TRANSACTED))


def _ended(*, commit: bool, version: int) -> State:
    def make(application: Application) -> None:
        assert "'none'" in str(application.add(TRANSACTED, version=3 if version < 5 else 5))
        until(lambda: is_done(application.end(commit=commit, version=version)))
        application.refresh()

    return make


def _fenced(application: Application) -> None:
    _ongoing(application)
    assert application.init()["error_code"] == "concurrent_transactions"
    application.refresh()


def _stuck(application: Application) -> None:
    application.poison()
    assert "'none'" in str(application.add(POISONED, version=5))
    until(lambda: is_done(application.end(commit=True, version=5)))
    application.refresh()


_STATES: Final[Mapping[str, State]] = {
    "empty": lambda _: None,
    "ongoing": _ongoing,
    "committed": _ended(commit=True, version=4),
    "committed (implicit)": _ended(commit=True, version=5),
    "aborted (implicit)": _ended(commit=False, version=5),
    "fenced": _fenced,
    "committing (implicit)": _stuck,
}

_FIRST: Final[dict[str, tuple[int, int]]] = {}
"""The producers that ids had when their scenes began, by broker and id."""


def _began_as(application: Application) -> tuple[int, int]:
    return _FIRST[f"{application.target.name} {application.id}"]


_CLAIMS: Final[Mapping[str, Claim]] = {
    **{name: CLAIMS[name] for name in ("current", "one less", "one more", "neither", "wrong id")},
    "before": _began_as,
    "after the last epoch": lambda a: (_began_as(a)[0], LAST_EPOCH + 1),
}


def _scene(
    key: ApiKey, state_name: str, claim_name: str, more: str, ask: Ask, epoch: int = LAST_EPOCH, first_version: int = 0
) -> Scene:
    name = f"exhausted at {epoch}: {state_name}: {claim_name}{more}"

    def play(target: Target, scene: str, version: int) -> Plain:
        application = Application(target, scene)
        application.refresh()
        _FIRST[f"{target.name} {scene}"] = (application.producer_id, application.epoch)
        _STATES[state_name](application)
        return application.outcome(ask(application, version, _CLAIMS[claim_name](application)))

    return Scene(name, key, play, first_version)


def _init(application: Application, version: int, producer: tuple[int, int]) -> Plain:
    answers = {}
    for time in ("first", "again"):
        answers[time] = application.init_when_loaded(version, producer_id=producer[0], producer_epoch=producer[1])
        application.settled()
    return answers


def _end(commit: bool) -> Ask:
    return lambda application, version, producer: application.end(
        commit=commit, version=version, producer_id=producer[0], producer_epoch=producer[1]
    )


def _add(application: Application, version: int, producer: tuple[int, int]) -> Plain:
    return application.add(TRANSACTED, version=version, producer_id=producer[0], producer_epoch=producer[1])


def _write(application: Application, version: int, producer: tuple[int, int]) -> Plain:
    before = Partition(application.target)
    answer = application.write(version, application.batch(producer_id=producer[0], producer_epoch=producer[1]))
    return [answer["responses"][0]["partition_responses"][0]["error_code"], before.outcome(application)]


SCENES: Final[tuple[Scene, ...]] = (
    *(
        _scene(ApiKey.INIT_PRODUCER_ID, state, claim, " and again", _init, epoch)
        for epoch in (LAST_EPOCH - 1, LAST_EPOCH)
        for state in _STATES
        for claim in _CLAIMS
    ),
    *(
        _scene(ApiKey.END_TXN, state, claim, f": {word}", _end(commit), epoch)
        for epoch, claims in ((LAST_EPOCH - 1, ("current", "before")), (LAST_EPOCH, _CLAIMS))
        for state in _STATES
        for claim in claims
        for word, commit in (("commit", True), ("abort", False))
    ),
    *(
        _scene(ApiKey.ADD_PARTITIONS_TO_TXN, state, claim, "", _add, first_version=2)
        for state in _STATES
        for claim in _CLAIMS
    ),
    *(_scene(ApiKey.PRODUCE, state, claim, "", _write, first_version=11) for state in _STATES for claim in _CLAIMS),
)


def exhaust(target: Target, plays: Iterable[tuple[Scene, int]]) -> None:
    """Give the transactional ids of these scenes, in these versions, producers at the end of their epochs, by a restart of the broker."""
    records = []
    for scene, version in plays:
        application = Application(target, scene.unique_name(version))
        application.begin(1)
        epoch = int(scene.name.split()[2].rstrip(":"))
        records.append(_record(application, epoch))
    target.close()
    target.node.stop()
    append_offline(target.node.data_dir / f"{_STATES_TOPIC}-0", records, TIMESTAMP_MS)
    target.node.start()
    first = Application(target, "first of all")
    until(lambda: _is_loaded(first))
    until(lambda: is_done(first.init(transactional_id=None)))


def _record(application: Application, epoch: int) -> NewRecord:
    value = TransactionValue(
        producer_id=application.producer_id,
        producer_epoch=epoch,
        timeout_ms=TIMEOUT_MS,
        status=TransactionStatus.EMPTY,
        partitions=None,
        last_update_ms=TIMESTAMP_MS,
        start_ms=-1,
        previous_producer_id=application.producer_id,
    )
    key = encode_transaction_key(application.id)
    return NewRecord(encode_transaction_value(value, FLEXIBLE_VERSION), key, timestamp=TIMESTAMP_MS)


def _is_loaded(application: Application) -> bool:
    answer: Any = application.target.ask(ApiKey.DESCRIBE_TRANSACTIONS, 0, {"transactional_ids": [application.id]})
    return bool(answer["transaction_states"][0]["error_code"] == "none")
