"""A worker process: values over pipes, and every way in which either side ends."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from esp.model.errors import CorruptionError
from esp.runtime.os_disk import OsDisk
from esp.runtime.worker_process import NICENESS, OUT_OF_MEMORY, OsWorkerProcess
from tests.unit.runtime import processes

DISK = OsDisk()


@pytest.fixture
def process() -> Iterator[OsWorkerProcess]:
    found = OsWorkerProcess(DISK, "test")
    yield found
    found.stop()


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end, "it does not become true"
        time.sleep(0.01)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_process_starts_when_it_is_needed_and_is_kept(process: OsWorkerProcess) -> None:
    assert process.pid is None
    assert not process.is_started
    assert list(process.iterate_blocking(processes.count, 3)) == [0, 1, 2]
    pid = process.pid
    assert pid is not None
    assert process.is_started
    assert list(process.iterate_blocking(processes.count, 0)) == []
    assert process.pid == pid
    process.stop()
    assert process.pid is None
    assert not process.is_started
    assert not is_alive(pid)


def test_a_disk_on_the_way_becomes_that_of_the_other_side(process: OsWorkerProcess, tmp_path: Path) -> None:
    [(disk, pid)] = process.iterate_blocking(processes.write, str(tmp_path / "file"), b"x" * 200_000)
    assert disk is DISK
    assert pid == process.pid != os.getpid()
    assert (tmp_path / "file").read_bytes() == b"x" * 200_000


def test_an_item_is_made_when_it_is_asked_for(process: OsWorkerProcess, tmp_path: Path) -> None:
    """So the one before it was dealt with, and the node decides how fast it goes."""
    path = tmp_path / "text"
    path.write_text("first")
    items = process.iterate_blocking(processes.read, str(path))
    found = []
    for text in ("second", "third", "fourth"):
        found.append(next(items))
        path.write_text(text)
    assert found == ["first", "second", "third"]
    assert list(items) == []


@pytest.mark.parametrize("error", [OSError(28, "full"), CorruptionError("a batch"), FileNotFoundError("a segment")])
def test_an_error_comes_over_and_the_process_stays(process: OsWorkerProcess, error: Exception) -> None:
    items = process.iterate_blocking(processes.fail, error)
    assert next(items) == 1
    pid = process.pid
    with pytest.raises(type(error)) as raised:
        next(items)
    assert raised.value.args == error.args
    assert list(process.iterate_blocking(processes.count, 1)) == [0]
    assert process.pid == pid


def test_a_generator_that_is_closed_early_ends_the_process(process: OsWorkerProcess) -> None:
    items = process.iterate_blocking(processes.count, 3)
    next(items)
    pid = process.pid
    assert pid is not None
    items.close()
    assert process.pid is None
    assert not is_alive(pid)
    assert list(process.iterate_blocking(processes.count, 1)) == [0]


def test_a_process_that_is_killed_is_an_error_and_the_next_call_starts_another(process: OsWorkerProcess) -> None:
    items = process.iterate_blocking(processes.count, 3)
    next(items)
    pid = process.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(ChildProcessError, match=f"{pid} was killed by signal 9"):
        list(items)
    assert list(process.iterate_blocking(processes.count, 1)) == [0]
    assert process.pid not in (None, pid)


def test_a_process_that_was_killed_between_two_calls_is_an_error(process: OsWorkerProcess) -> None:
    list(process.iterate_blocking(processes.count, 1))
    pid = process.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(ChildProcessError):
        list(process.iterate_blocking(processes.count, 1))
    assert list(process.iterate_blocking(processes.count, 1)) == [0]


def test_a_function_that_the_process_cannot_import_is_an_error(
    process: OsWorkerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "module_of_this_process_alone", processes)
    monkeypatch.setattr(processes.count, "__module__", "module_of_this_process_alone")
    with pytest.raises(ChildProcessError, match="ended with status 1"):
        list(process.iterate_blocking(processes.count, 1))


def test_a_process_without_memory_ends(process: OsWorkerProcess) -> None:
    with pytest.raises(ChildProcessError, match=f"ended with status {OUT_OF_MEMORY}"):
        list(process.iterate_blocking(processes.take_all_memory))


def test_what_is_printed_is_no_item(process: OsWorkerProcess) -> None:
    assert list(process.iterate_blocking(processes.print_and_count)) == [1]


def test_stop_ends_a_process_in_the_midst_of_its_work(process: OsWorkerProcess) -> None:
    items = process.iterate_blocking(processes.take_long)
    next(items)
    pid = process.pid
    assert pid is not None
    raised: list[BaseException] = []

    def wait() -> None:
        try:
            next(items)
        except OSError as error:
            raised.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    process.stop()
    thread.join(60)
    assert not thread.is_alive()
    assert isinstance(raised[0], ChildProcessError)
    assert not is_alive(pid)


def test_a_process_is_of_low_priority_and_leaves_signals_of_the_terminal_to_the_node(process: OsWorkerProcess) -> None:
    assert list(process.iterate_blocking(processes.niceness)) == [min(19, os.nice(0) + NICENESS)]
    assert process.pid is not None
    os.kill(process.pid, signal.SIGINT)
    os.kill(process.pid, signal.SIGTERM)
    assert list(process.iterate_blocking(processes.count, 2)) == [0, 1]


def test_a_process_ends_with_that_of_the_node() -> None:
    code = (
        "import os, signal\n"
        "from esp.runtime.os_disk import OsDisk\n"
        "from esp.runtime.worker_process import OsWorkerProcess\n"
        "from tests.unit.runtime import processes\n"
        "process = OsWorkerProcess(OsDisk(), 'test')\n"
        "next(items := process.iterate_blocking(processes.count, 3))\n"
        "print(process.pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    until(lambda: not is_alive(int(ended.stdout)))


NODE_IS_KILLED_IN_A_STEP = """
import os, signal, sys, threading
from pathlib import Path
from esp.runtime.os_disk import OsDisk
from esp.runtime.worker_process import OsWorkerProcess
from tests.unit.runtime import processes
disk = OsDisk()
lock = disk.lock(sys.argv[1] + "/.lock")
process = OsWorkerProcess(disk, "test")
next(items := process.iterate_blocking(processes.append_for_ever, sys.argv[1] + "/written"))
threading.Thread(target=next, args=(items,), daemon=True).start()
written = Path(sys.argv[1], "written")
while not (written.exists() and written.stat().st_size):
    pass
if sys.argv[2] == "stopped":
    os.kill(process.pid, signal.SIGSTOP)
    # The signal is on its way until each thread has stopped: one that has not sees the end of its input, and ends the process.
    while any(stat.read_text().rpartition(") ")[2][0] != "T" for stat in Path(f"/proc/{process.pid}/task").glob("*/stat")):
        pass
print(process.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def kill_node_in_a_step(directory: Path, worker: str) -> int:
    """Start a node's process, and kill it in the midst of a step of its worker process; returns the worker's process id."""
    ended = subprocess.run(
        [sys.executable, "-c", NODE_IS_KILLED_IN_A_STEP, str(directory), worker],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # else the kernel may end a stopped process whose group has lost its parent
    )
    assert ended.returncode == -signal.SIGKILL
    return int(ended.stdout)


def test_the_next_node_has_the_lock_once_the_process_of_a_killed_one_writes_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The process is of low priority, and the machine may be busy.
    monkeypatch.setattr("esp.runtime.os_disk.ORPHAN_END_S", 60)
    pid = kill_node_in_a_step(tmp_path, "working")
    lock = OsDisk().lock(str(tmp_path / ".lock"))
    assert lock is not None
    size = (tmp_path / "written").stat().st_size
    until(lambda: not is_alive(pid))
    assert (tmp_path / "written").stat().st_size == size > 0
    lock.release()


def test_a_process_that_outlives_its_node_keeps_the_next_one_out(tmp_path: Path) -> None:
    pid = kill_node_in_a_step(tmp_path, "stopped")
    try:
        assert OsDisk().lock(str(tmp_path / ".lock")) is None
    finally:
        os.kill(pid, signal.SIGKILL)
    until(lambda: not is_alive(pid))
    lock = OsDisk().lock(str(tmp_path / ".lock"))
    assert lock is not None
    lock.release()


def test_a_process_that_cannot_start_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(FileNotFoundError):
        list(OsWorkerProcess(DISK, "test").iterate_blocking(processes.count, 1))
