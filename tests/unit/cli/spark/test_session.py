"""What a session of Spark is started with."""

import subprocess
import sys
import textwrap
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

from esp.cli.app import run_tools
from esp.cli.spark import session


def run(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> str:
    assert run_tools(("spark", *arguments)) == status
    told = capsys.readouterr()
    return told.err if status else told.out


@pytest.mark.parametrize(("release", "scala"), [("4.0.0", "2.13"), ("4.3.1", "2.13"), ("3.5.4", "2.12")])
def test_the_connector_is_that_of_the_release(capsys: pytest.CaptureFixture[str], release: str, scala: str) -> None:
    told = run(capsys, "conf", "--spark-version", release)
    assert told == f"spark.jars.packages org.apache.spark:spark-sql-kafka-0-10_{scala}:{release}\n"


def test_without_a_release_it_is_that_of_the_pyspark_that_is_here(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(capsys, "conf").endswith(f":{metadata.version('pyspark')}\n")

    def missing(_name: str) -> str:
        raise metadata.PackageNotFoundError

    monkeypatch.setattr(session, "version", missing)
    assert "PySpark is not installed" in run(capsys, "conf", status=1)
    assert "Spark two" in run(capsys, "conf", "--spark-version", "two", status=1)


def test_spark_finds_the_source_in_the_zip_alone(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """In a Python that sees nothing of this checkout."""
    archive = tmp_path / "esp-spark.zip"
    run(capsys, "zip", "--output", str(archive))
    assert not [name for name in zipfile.ZipFile(archive).namelist() if "__pycache__" in name]
    program = f"""
        import pkgutil, sys
        sys.path[:0] = [{str(archive)!r}]
        assert "pyspark_esp" in [module.name for module in pkgutil.iter_modules([{str(archive)!r}])]
        from pyspark_esp import DefaultSource
        import esp
        assert esp.__file__.startswith({str(archive)!r}), esp.__file__
        source = DefaultSource({{"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t"}})
        print(source.reader(source.schema()) is not None)
        """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=60, cwd=tmp_path
    )
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr


def test_a_zip_that_cannot_be_written_is_told(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "cannot be written" in run(capsys, "zip", "--output", str(tmp_path / "no" / "file.zip"), status=1)
