import os
import sys
import time
from pathlib import Path

import pytest

from pyspark_jobs.processes import PipelineProcess, ProcessError


def python(code: str) -> list[str]:
    return [sys.executable, "-u", "-c", code]


def is_running(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_lines_come_until_the_end(tmp_path: Path) -> None:
    with PipelineProcess("job", python("print('one'); print('two')"), str(tmp_path)) as process:
        assert list(process.lines(30)) == ["one", "two"]
        process.require_success()


def test_a_failure_shows_the_end_of_the_log(tmp_path: Path) -> None:
    code = "import sys; [print('line', n, file=sys.stderr) for n in range(50)]; sys.exit(3)"
    with (
        PipelineProcess("job", python(code), str(tmp_path)) as process,
        pytest.raises(ProcessError, match="job ended with status 3") as failure,
    ):
        process.require_success()
    assert "| line 49" in str(failure.value)
    assert "| line 2\n" not in str(failure.value)
    assert str(tmp_path / "job.log") in str(failure.value)


def test_a_process_that_takes_too_long_is_killed(tmp_path: Path) -> None:
    with (
        PipelineProcess("job", python("import time; time.sleep(600)"), str(tmp_path)) as process,
        pytest.raises(ProcessError, match="took longer"),
    ):
        list(process.lines(0.2))


def test_a_command_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(ProcessError, match="no-such-command"):
        PipelineProcess("job", ["/no-such-command"], str(tmp_path))


def test_stop_lets_the_process_end_in_order(tmp_path: Path) -> None:
    code = "import signal, sys; signal.signal(15, lambda *_: sys.exit(0)); print('up'); signal.pause()"
    with PipelineProcess("job", python(code), str(tmp_path)) as process:
        assert next(process.lines(30)) == "up"
        process.stop()


def test_stop_tells_of_a_disorderly_end(tmp_path: Path) -> None:
    code = "import signal, sys; signal.signal(15, lambda *_: sys.exit(9)); print('up'); signal.pause()"
    with PipelineProcess("job", python(code), str(tmp_path)) as process:
        next(process.lines(30))
        with pytest.raises(ProcessError, match="status 9"):
            process.stop()


def test_kill_takes_down_what_the_process_started(tmp_path: Path) -> None:
    code = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "print(child.pid); time.sleep(600)"
    )
    with PipelineProcess("job", python(code), str(tmp_path)) as process:
        child = int(next(process.lines(30)))
        assert is_running(child)
    deadline = time.monotonic() + 10
    while is_running(child):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_the_environment_is_ours_and_what_is_added(tmp_path: Path) -> None:
    code = "import os; print(os.environ['PATH'] + os.environ['ADDED'])"
    with PipelineProcess("job", python(code), str(tmp_path), {"ADDED": "!"}) as process:
        assert list(process.lines(30)) == [os.environ["PATH"] + "!"]
