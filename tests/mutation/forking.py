"""Runs something on a mutated product in a forked process, which has everything imported already: that is most of what a few tests cost.

The mutation is put in by giving the function, wherever it is known by now, the code that the mutated source has for it. What it computed
while modules were imported stays as it was: a survivor is therefore judged once more in a process that imports the mutated module.
"""

import gc
import importlib
import inspect
import os
import pkgutil
import resource
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import CodeType, FunctionType
from typing import Final

import esp
from tests.mutation.operators import Mutation
from tests.mutation.reach import ROOT

CPU_LIMIT_S: Final = 120
WAIT_LIMIT_S: Final = 1_200
"""A mutation that makes something take so much of a processor, or wait for so long, is noticed: on a busy machine the two differ."""

_NOT_IMPORTED: Final = ("esp.testing", "esp.cli", "esp.__main__", "esp.simulation.__main__", "esp.simulation.coverage")
"""A plugin of pytest, which rewrites its assertions; and commands."""

_LOOK_S: Final = 0.02
_NOTICED: Final = 1


def import_everything() -> None:
    """Import the product and its simulator, once for all forks."""
    for module in pkgutil.walk_packages(esp.__path__, "esp."):
        if not module.name.startswith(_NOT_IMPORTED):
            importlib.import_module(module.name)
    gc.collect()


def is_noticed(mutation: Mutation, work: Callable[[], int]) -> bool:
    """True if the work, in a process with the mutation, ends with a status other than 0, or not in time."""
    pid = os.fork()
    if not pid:
        status = _NOTICED
        with suppress(BaseException):
            resource.setrlimit(resource.RLIMIT_CPU, (CPU_LIMIT_S, CPU_LIMIT_S))
            _be_silent()
            put_in(mutation)
            status = int(work())
        os._exit(status)
    end_s = time.monotonic() + WAIT_LIMIT_S
    while time.monotonic() < end_s:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return status != 0
        time.sleep(_LOOK_S)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return True


def can_put_in(mutation: Mutation) -> bool:
    """True if the mutated function is one that is known, and takes the mutated code."""
    return all(
        _functions_of(present) and len(present.co_freevars) == len(changed.co_freevars)
        for present, changed in find_changes(mutation)
    )


def put_in(mutation: Mutation) -> None:
    """Let the function have the mutated code, in this process."""
    for present, changed in find_changes(mutation):
        for function in _functions_of(present):
            function.__code__ = changed


def find_changes(mutation: Mutation) -> list[tuple[CodeType, CodeType]]:
    """The code of each function that the mutation changes, with what it becomes; of nested functions the outermost."""
    path = ROOT / mutation.path
    source = path.read_text(encoding="utf-8")
    present, changed = (
        compile(text, str(path), "exec", dont_inherit=True) for text in (source, mutation.apply(source))
    )
    return list(_compare(present, changed))


def _compare(present: CodeType, changed: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
    codes = zip(
        *([each for each in code.co_consts if inspect.iscode(each)] for code in (present, changed)), strict=True
    )
    for one, other in codes:
        if not one.co_flags & inspect.CO_OPTIMIZED:  # of a class
            yield from _compare(one, other)
        elif one != other:
            yield one, other


def _functions_of(code: CodeType) -> list[FunctionType]:
    gc.unfreeze()  # what is frozen is not listed
    return [each for each in gc.get_objects() if type(each) is FunctionType and each.__code__ == code]


def _be_silent() -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
