"""The needs of a session of Spark: the connector of its own source, and this package as one file."""

import zipfile
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated, Final

import typer

from esp.cli.output import print_line, print_note
from esp.model.errors import OperatorError

_PACKAGES: Final = ("esp", "pyspark_esp")
_SCALA_OF_PYSPARK: Final = {3: "2.12", 4: "2.13"}
"""The version of Scala that the releases on PyPI are built with, by the first number of PySpark's version."""


def print_conf(
    spark_version: Annotated[
        str | None,
        typer.Option(
            "--spark-version",
            metavar="VERSION",
            help="The release of Spark (default: of the PySpark that is installed).",
        ),
    ] = None,
) -> None:
    """Print the settings with which Spark's own source and sink find their connector: lines for spark-defaults.conf.

    The format [bold]esp[/bold] needs no connector, and no setting.

    [bold]Examples[/bold]

    esp spark conf >> $SPARK_HOME/conf/spark-defaults.conf
    """
    release = spark_version or _installed()
    first = release.partition(".")[0]
    scala = _SCALA_OF_PYSPARK.get(int(first)) if first.isdecimal() else None
    if scala is None:
        raise OperatorError(f"Spark {release}: its Scala is not known here", "Give a version such as 4.0.0.")
    print_line(f"spark.jars.packages org.apache.spark:spark-sql-kafka-0-10_{scala}:{release}")


def _installed() -> str:
    try:
        return version("pyspark")
    except PackageNotFoundError as error:
        raise OperatorError(
            "PySpark is not installed here", "Name the release: esp spark conf --spark-version 4.0.0"
        ) from error


def write_zip(
    output: Annotated[Path, typer.Option("--output", metavar="FILE", help="The file to write.")] = Path(
        "esp-spark.zip"
    ),
) -> None:
    """Write this package as one file for --py-files, where nothing can be installed on executors.

    The executors' Python must have numpy and pyarrow.

    [bold]Examples[/bold]

    esp spark zip

    spark-submit --py-files esp-spark.zip job.py
    """
    try:
        with zipfile.ZipFile(output, "w", zipfile.ZIP_DEFLATED) as archive:
            for package in _PACKAGES:
                _add(archive, files(package), package)
    except OSError as error:
        raise OperatorError(
            f"{output} cannot be written: {error.strerror}", "Name a file in a directory that is there."
        ) from error
    print_note(f"{output}: {output.stat().st_size // 1024} KiB")


def _add(archive: zipfile.ZipFile, directory: Traversable, path: str) -> None:
    for entry in sorted(directory.iterdir(), key=lambda each: each.name):
        if entry.is_dir():
            if entry.name != "__pycache__":
                _add(archive, entry, f"{path}/{entry.name}")
        elif not entry.name.endswith(".pyc"):
            archive.writestr(zipfile.ZipInfo(f"{path}/{entry.name}"), entry.read_bytes(), zipfile.ZIP_DEFLATED)
