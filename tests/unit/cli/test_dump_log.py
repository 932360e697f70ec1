import json

import pytest

from esp.cli.app import run_tools
from tests.unit.cli.dumping.test_segment_dump import batch


@pytest.fixture
def directory(tmp_path):
    (tmp_path / "00000000000000000000.log").write_bytes(batch(0, b"one") + batch(1, b"two"))
    (tmp_path / "00000000000000000000.index").write_bytes(b"")
    (tmp_path / "partition.metadata").write_text("version: 0\n")
    return tmp_path


def test_a_directory_is_read_whole(capsys, directory):
    assert run_tools(["dump-log", "--print-data-log", str(directory)]) == 0
    told = capsys.readouterr().out
    assert told.count("Dumping") == 2
    assert "payload: two" in told
    assert "00000000000000000000.index is empty." in told


def test_what_is_wrong_is_told_on_stderr_and_by_the_exit_status(capsys, directory):
    with (directory / "00000000000000000000.log").open("ab") as file:
        file.write(b"x")
    assert run_tools(["dump-log", "--files", f"{directory}/00000000000000000000.log"]) == 1
    captured = capsys.readouterr()
    assert "1 invalid bytes" in captured.err
    assert "1 complaint in 1 files" in captured.err
    assert captured.out.count("baseOffset") == 2


def test_indexes_are_checked_without_their_entries(capsys, directory):
    index = directory / "00000000000000000000.index"
    index.write_bytes(bytes.fromhex("0000000100000007"))
    assert run_tools(["dump-log", "--index-sanity-check", str(index)]) == 0
    assert capsys.readouterr().out.endswith("passed the check.\n")
    assert run_tools(["dump-log", "--verify-index-only", str(index)]) == 1
    captured = capsys.readouterr()
    assert "offset:" not in captured.out
    assert "there is no batch" in captured.err


def test_json_has_one_object_a_line(capsys, directory):
    assert run_tools(["dump-log", "--json", "--deep-iteration", str(directory)]) == 0
    objects = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [told["offset"] for told in objects if "offset" in told] == [0, 1]
    assert all(told["file"].startswith(str(directory)) for told in objects)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ([], "no file to read"),
        (["/does/not/exist.log"], "does not exist"),
        (["{}/partition.metadata"], "not a kind of file"),
        (["{}/nonsense.log"], "is not named like"),
        (["{}/nonsense.checkpoint"], "is not named like a snapshot"),
    ],
)
def test_what_cannot_be_read_is_the_operators_to_mend(capsys, directory, arguments, word):
    (directory / "nonsense.log").write_bytes(b"x")
    (directory / "nonsense.checkpoint").write_bytes(b"x")
    assert run_tools(["dump-log", *(argument.format(directory) for argument in arguments)]) == 1
    assert word in capsys.readouterr().err


def test_records_are_of_one_kind(capsys, directory):
    assert run_tools(["dump-log", "--offsets-decoder", "--cluster-metadata-decoder", str(directory)]) == 2
    assert run_tools(["dump-log", "--offsets-decoder", "--transaction-log-decoder", str(directory)]) == 2
    assert "of one kind" in capsys.readouterr().err
