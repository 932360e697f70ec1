"""Runners of a capture as processes that die: at one of their operations, or at a moment that a seed chooses."""

import importlib
import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Final

from esp.capture import runner as runners
from esp.capture.claim import Claim
from esp.capture.cutting import Limits
from esp.capture.directory import Directory
from esp.capture.ledger import OffsetLedger
from esp.capture.plan import CapturePlan
from esp.capture.runner import Runner
from esp.consumer.connection import Deadline
from esp.consumer.errors import ConsumerError
from esp.consumer.messages import Api
from esp.sink import attempts
from esp.sink.transactional_producer import TransactionalProducer
from tests.integration.sink_runs import WatchedCluster

KILLED: Final = 9
FINISHED: Final = 0
REFUSED: Final = 3

_OPERATIONS: Final = ("publish", "make_durable", "remove", "write_owner", "open_output")
_REQUESTS: Final = ("InitProducerId", "OffsetFetch", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn", "OffsetCommit")

THERE: Final = "there"
GO_ON: Final = "go on"

SMALL_FILES: Final = Limits(0.05, 40_000)


# Bugs that the tests must notice ------------------------------------------------------------------------------------------------


def _publish_first() -> None:
    def commit(self, partition, end, work, path):
        wanted = self._positions[partition]._replace(offset=end, file=path, work=work, runner=self.runner)
        self._finish(wanted)
        self._change({partition: wanted})

    Claim.commit = commit  # type: ignore[method-assign]


def _offset_outside() -> None:
    """Offsets are committed by no transaction, so that no runner is fenced."""
    OffsetLedger.commit = lambda self, offsets, _deadline: self._offsets.commit(offsets, 30.0)  # type: ignore[method-assign]


def _without_epoch() -> None:
    """A runner has a transactional id of its own, so that its InitProducerId fences no other one."""
    whole = TransactionalProducer.begin_epoch

    def begin_epoch(self: TransactionalProducer, deadline: Deadline) -> None:
        if not self._id.endswith(str(os.getpid())):
            self._id += f"-{os.getpid()}"
            self._coordinator._key = self._id
        whole(self, deadline)

    TransactionalProducer.begin_epoch = begin_epoch  # type: ignore[method-assign]


def _without_application() -> None:
    """Files are added to tables without saying so, so that a start adds them again."""
    logs = importlib.import_module("esp.capture.delta_log")
    whole = logs.CommitProperties
    logs.CommitProperties = lambda **given: whole(**{**given, "app_transactions": None})  # type: ignore[attr-defined]


def _without_look() -> None:
    """Files are added to tables that have them."""
    logs = importlib.import_module("esp.capture.delta_log")
    logs.DeltaLog.ends = lambda _self, _capture, _partitions: {}


BUGS: Final[dict[str, Callable[[], None]]] = {
    "publish before commit": _publish_first,
    "offset outside the transaction": _offset_outside,
    "no InitProducerId": _without_epoch,
}

TABLE_BUGS: Final[dict[str, Callable[[], None]]] = {
    "no application transaction": _without_application,
    "no look at the table": _without_look,
}


# Processes ----------------------------------------------------------------------------------------------------------------------


def _die_at(step: int, *, has_tables: bool) -> None:
    """Die at the ``step``-th operation: before or after a request to a coordinator, or a change of the directory or of a table."""
    lock = threading.Lock()
    seen: list[str] = []

    def note(event: str) -> None:
        with lock:
            seen.append(event)
            if len(seen) > step:
                os._exit(KILLED)

    def hook(event: str, api: Api) -> None:
        if api.name in _REQUESTS:
            note(f"{event} {api.name}")

    def noting(kind: type, name: str) -> None:
        whole = getattr(kind, name)

        def operation(self, *arguments):
            note(f"before {name}")
            found = whole(self, *arguments)
            note(f"after {name}")
            return found

        setattr(kind, name, operation)

    for name in _OPERATIONS:
        noting(Directory, name)
    if has_tables:
        noting(importlib.import_module("esp.capture.delta_log").DeltaLog, "add")
    runners.Cluster = lambda servers, terms: WatchedCluster(servers, terms, 30.0, hook)  # type: ignore[assignment,misc]


def _stop_before_a_file(gate: Path) -> None:
    """Before the first file is committed say so, and wait to be let on."""
    whole = OffsetLedger.commit
    calls = count()

    def commit(self, offsets, deadline):
        if next(calls) == 1:  # the first commit is the takeover
            (gate / THERE).touch()
            until = time.monotonic() + 60
            while not (gate / GO_ON).exists():
                assert time.monotonic() < until, "the runner is not let on"
                time.sleep(0.01)
        whole(self, offsets, deadline)

    OffsetLedger.commit = commit  # type: ignore[method-assign]


def _work(plan: CapturePlan, step: int | None, bug: str | None, gate: Path | None) -> None:
    attempts._UNDECIDED_S = 0.3
    if bug is not None:
        {**BUGS, **TABLE_BUGS}[bug]()
    if step is not None:
        _die_at(step, has_tables=plan.has_tables)
    if gate is not None:
        _stop_before_a_file(gate)
    try:
        Runner(plan, lambda _line: None, threading.Event()).run()
    except ConsumerError as error:
        sys.stderr.write(f"a runner ends: {error}\n")
        sys.stderr.flush()
        os._exit(REFUSED)


def begin(
    plan: CapturePlan, step: int | None = None, bug: str | None = None, gate: Path | None = None
) -> multiprocessing.process.BaseProcess:
    """Start a runner.

    Args:
        plan: what it does.
        step: the number of the operation at which it dies; None: it lives.
        bug: one of :data:`BUGS` or :data:`TABLE_BUGS`.
        gate: a directory: the runner makes :data:`THERE` in it before it commits a file, and waits for :data:`GO_ON`.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        [__name__, "pandas", "deltalake"]
    )  # pandas is imported by pyarrow when it first makes an array
    process = context.Process(target=_work, args=(plan, step, bug, gate))
    process.start()
    return process


def end(process: multiprocessing.process.BaseProcess) -> int:
    """Return the exit status of a runner when it has ended."""
    process.join(60)
    assert process.exitcode is not None, "the process does not end"
    return process.exitcode


def kill(process: multiprocessing.process.BaseProcess) -> None:
    """Kill a runner, if it lives."""
    process.kill()
    process.join(60)


def work_left(directory: Path) -> list[str]:
    """The files that have no names."""
    folder = directory / "_work"
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []
