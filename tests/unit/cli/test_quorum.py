from pathlib import Path

import pytest

from esp.cli.app import run_tools


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["add-controller"], "--config"),
        (["remove-controller"], "--controller-id"),
        (["describe", "--dry-run"], "--dry-run"),
        (["describe", "--config", "f"], "--config is for add-controller"),
        (["add-controller", "--config", "f", "--controller-id", "1"], "--controller-id is for remove-controller"),
        (["remove-controller", "--controller-id", "1", "--replication"], "--replication is for describe"),
        (["add-controller", "--config", "/does/not/exist"], "/does/not/exist"),
    ],
)
def test_options_that_do_not_go_together_are_refused(capsys: pytest.CaptureFixture[str], arguments, word) -> None:
    assert run_tools(["quorum", *arguments]) == 1
    assert word in capsys.readouterr().err


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ("process.roles=broker\nlisteners=PLAINTEXT://127.0.0.1:9092\n", "no controller listener"),
        ("listeners=PLAINTEXT://:9092,CONTROLLER://127.0.0.1:0\n", "no fixed port"),
        ("listeners=PLAINTEXT://:9092,CONTROLLER://127.0.0.1:9093\n", "cannot be read"),
    ],
)
def test_node_that_cannot_vote_is_refused_before_anything_is_asked(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, settings: str, word: str
) -> None:
    path = tmp_path / "node.properties"
    own = f"node.id=7\ncontroller.listener.names=CONTROLLER\nlog.dirs={tmp_path}/data\n"
    quorum = "" if ":0" in settings else "controller.quorum.bootstrap.servers=127.0.0.1:1\n"
    path.write_text(own + quorum + settings)
    assert run_tools(["quorum", "add-controller", "--config", str(path), "--dry-run"]) == 1
    assert word in capsys.readouterr().err
