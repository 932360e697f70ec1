"""The states of transactional ids, and the producers that a request may name: the two sides of the tables of transactions."""

from collections.abc import Callable, Mapping
from typing import Final

from tests.conformance.comparer.setup import POISONED, TRANSACTED
from tests.conformance.comparer.transactions.application import Application, until

State = Callable[[Application], None]
"""Brings an application into a state."""

EPOCH_MAX: Final = 32_767


def empty(application: Application) -> None:
    """A new producer, the third one."""
    application.begin()


def renewed(application: Application) -> None:
    """A producer that has named itself: it may ask again."""
    application.begin()
    application.init(producer_id=application.producer_id, producer_epoch=application.epoch)


def empty_ongoing(application: Application) -> None:
    """A transaction without partitions."""
    application.begin()
    assert application.add()["results_by_topic_v3_and_below"] == []


def ongoing(application: Application) -> None:
    """A transaction of an older client."""
    application.begin()
    assert "'none'" in str(application.add(TRANSACTED))


def ongoing_implicit(application: Application) -> None:
    """A transaction of a client that leaves it to brokers to add partitions."""
    application.begin()
    assert "'none'" in str(application.add(TRANSACTED, version=5))


def fenced(application: Application) -> None:
    """A newer producer has claimed the id: its transaction is aborted."""
    ongoing(application)
    assert application.init()["error_code"] == "concurrent_transactions"
    application.refresh()


def timed_out(application: Application) -> None:
    """The coordinator has aborted the transaction, which took too long."""
    application.begin(transaction_timeout=1)
    application.times_out_at_once = True
    application.add(TRANSACTED)
    until(lambda: application.described()["transaction_state"] == "CompleteAbort")
    application.refresh()


def _decided(*, commit: bool, version: int) -> State:
    def make(application: Application) -> None:
        application.begin()
        application.poison()
        assert "'none'" in str(application.add(POISONED, version=3 if version < 5 else 5))
        answer = application.end(commit=commit, version=version)
        assert answer["error_code"] == "none", answer
        application.refresh()

    return make


def _completed(*, commit: bool, version: int) -> State:
    def make(application: Application) -> None:
        (ongoing if version < 5 else ongoing_implicit)(application)
        answer = application.end(commit=commit, version=version)
        assert answer["error_code"] == "none", answer
        application.refresh()

    return make


STATES: Final[Mapping[str, State]] = {
    "unknown": lambda _: None,
    "empty": empty,
    "renewed": renewed,
    "ongoing": ongoing,
    "ongoing (implicit)": ongoing_implicit,
    "committing": _decided(commit=True, version=4),
    "aborting": _decided(commit=False, version=4),
    "committing (implicit)": _decided(commit=True, version=5),
    "aborting (implicit)": _decided(commit=False, version=5),
    "committed": _completed(commit=True, version=4),
    "aborted": _completed(commit=False, version=4),
    "committed (implicit)": _completed(commit=True, version=5),
    "aborted (implicit)": _completed(commit=False, version=5),
    "fenced": fenced,
}
"""All that one node's coordinator can be brought into, by requests alone."""

Claim = Callable[[Application], tuple[int, int]]
"""A producer id and an epoch."""

CLAIMS: Final[Mapping[str, Claim]] = {
    "current": lambda a: (a.producer_id, a.epoch),
    "one less": lambda a: (a.producer_id, max(-1, a.epoch - 1)),
    "two less": lambda a: (a.producer_id, max(-1, a.epoch - 2)),
    "one more": lambda a: (a.producer_id, min(EPOCH_MAX, a.epoch + 1)),
    "last epoch": lambda a: (a.producer_id, EPOCH_MAX),
    "no epoch": lambda a: (a.producer_id, -1),
    "no id": lambda a: (-1, a.epoch),
    "neither": lambda _: (-1, -1),
    "negative epoch": lambda a: (a.producer_id, -2),
    "negative id": lambda a: (-2, a.epoch),
    "wrong id": lambda a: (a.producer_id + 1_000_000, a.epoch),
    "another's id": lambda a: (a.another().producer_id, a.epoch),
}
"""The producers that requests name."""

MAIN_CLAIMS: Final[Mapping[str, Claim]] = {
    name: CLAIMS[name] for name in ("current", "one less", "one more", "last epoch", "no epoch", "wrong id")
}
"""Those that stand for all where the same check was asked with all of them before."""
