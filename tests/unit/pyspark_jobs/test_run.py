import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from pyspark_jobs import flight_delays, flight_report, run
from pyspark_jobs.processes import ProcessError
from pyspark_jobs.run import READY, main, prepare_directory, start_broker


@pytest.mark.parametrize(
    ("line", "address"),
    [
        ("ready node=1 listening=127.0.0.1:19092", "127.0.0.1:19092"),
        ("ready listening=[::1]:9092", "[::1]:9092"),
        ("ready bootstrap=127.0.0.1:1,127.0.0.1:2", "127.0.0.1:1,127.0.0.1:2"),
        ("not ready listening=x", None),
        ("readying listening=127.0.0.1:1", None),
    ],
)
def test_the_ready_line_names_the_address(line: str, address: str | None) -> None:
    match = READY.match(line)
    assert (match and match[1]) == address


def test_a_broker_is_ready_when_it_says_so(tmp_path: Path) -> None:
    code = (
        "import signal, sys\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\n"
        "print('hello'); print('ready node=1 listening=h:1'); signal.pause()"
    )
    broker, address = start_broker([sys.executable, "-u", "-c", code], str(tmp_path))
    with broker:
        assert address == "h:1"
        broker.stop()


def test_a_broker_that_ends_at_its_start_is_shown_with_its_log(tmp_path: Path) -> None:
    code = "import sys; sys.exit('port 9092 is taken')"
    with pytest.raises(ProcessError, match="port 9092 is taken"):
        start_broker([sys.executable, "-c", code], str(tmp_path))


def test_a_directory_of_an_earlier_run_is_replaced(tmp_path: Path) -> None:
    directory = tmp_path / "run"
    prepare_directory(str(directory))
    (directory / "data").mkdir()
    prepare_directory(str(directory))
    assert not (directory / "data").exists()
    assert (directory / "logs").is_dir()


def test_a_directory_with_other_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(ProcessError, match="not of an earlier run"):
        prepare_directory(str(tmp_path))
    assert (tmp_path / "thesis.txt").exists()


def test_a_failed_run_says_what_failed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broker = shlex.join([sys.executable, "-c", "import sys; sys.exit('no disk left')"])
    assert main(["--dir", str(tmp_path / "run"), "--broker", broker]) == 1
    error = capsys.readouterr().err
    assert "The pipeline failed: the broker ended before it was ready" in error
    assert "no disk left" in error


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--nodes", "0"], "at least one"),
        (["--nodes", "3", "--bootstrap-server", "h:1"], "neither"),
        (["--kill-leaders"], "--nodes 3"),
    ],
)
def test_a_cluster_that_cannot_be_is_refused(
    arguments: list[str], word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(arguments)
    assert word in capsys.readouterr().err


@pytest.mark.parametrize(
    "main_of", [lambda: main(["--exactly-once"]), lambda: main(["--source", "esp"])], ids=["exactly once", "source"]
)
def test_what_needs_the_package_is_refused_without_it(
    main_of: Callable[[], int], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run, "has_esp", lambda: False)
    with pytest.raises(SystemExit):
        main_of()
    assert "need the package esp" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("job", "arguments", "word"),
    [
        (flight_delays, ["--sink", "mine"], "give both"),
        (flight_report, ["--sink-text", "x"], "give both"),
        (flight_delays, ["--source", "pulsar"], "invalid choice"),
    ],
)
def test_arguments_of_jobs_that_do_not_fit_together_get_one_line(
    job: ModuleType, arguments: list[str], word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    places = ["--output", "o", *(["--checkpoint", "c"] if job is flight_delays else ["--rows", "r"])]
    with pytest.raises(SystemExit):
        job.main([*places, *arguments])
    assert word in capsys.readouterr().err.splitlines()[-1]
