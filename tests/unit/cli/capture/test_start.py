"""Mistakes in the options of ``esp capture start``: one line each, before a broker is asked. And what commands load."""

import subprocess
import sys
from pathlib import Path

import pytest

from esp.cli.app import run_tools


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("a/b",), "esp: NAME a/b: it is no name of a capture"),
        (("c", "--every", "soon"), "esp: --every soon: it is no duration"),
        (("c", "--every", "0s"), "esp: --every 0s: it does not last"),
        (("c", "--size", "big"), "esp: --size big: not a number of bytes"),
        (("c", "--size", "10K"), "esp: --size 10K: files would be too small for Parquet"),
        (("c", "--value-format", "xml"), "esp: --value-format xml\n  Write one of binary, string, json, avro."),
        (("c", "--value-format", "json"), "esp: --value-schema: valueFormat=json needs it"),
        (("c", "--value-format", "json", "--value-schema", "a NOTYPE"), "esp: --value-schema a NOTYPE: "),
        (("c", "--bootstrap-server", "nowhere"), "esp: --bootstrap-server nowhere: nowhere is no address"),
        (("c", "--topic", ""), "esp: --topic: a name is empty\n  Name topics that exist."),
        (("c", "--to", "nosuch://x"), "esp: --to nosuch://x: "),
    ],
)
def test_mistakes_are_told(
    arguments: tuple[str, ...], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_tools(("capture", "start", "--topic", "t", "--to", str(tmp_path), *arguments)) == 1
    told = capsys.readouterr().err
    assert words in told
    assert len(told.splitlines()) == 2


def test_a_directory_that_no_capture_writes_to_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_tools(("capture", "verify", str(tmp_path), "--offline")) == 1
    assert "no capture writes to it" in capsys.readouterr().err


def test_commands_load_no_libraries_of_columns() -> None:
    code = "import sys, esp.cli.app; print([name for name in ('numpy', 'pyarrow', 'pyspark') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
