"""The data source as PySpark finds it, and as executors have it."""

import pkgutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from pyspark.sql.datasource import DataSource

import pyspark_esp
from esp.options.errors import OptionError
from esp.spark.source import DefaultSource

ROOT = Path(__file__).resolve().parents[3]
OPTIONS = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t"}

HIDING = """
import sys
class Hiding:
    def find_spec(self, name, path=None, target=None):
        if name in PACKAGES:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Hiding())
"""


def run_without(packages: str, program: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a Python that has none of these packages."""
    hidden = HIDING.replace("PACKAGES", repr(packages.split()))
    return subprocess.run(
        [sys.executable, "-c", hidden + textwrap.dedent(program)], capture_output=True, text=True, timeout=60, cwd=ROOT
    )


def test_pyspark_finds_it_by_the_name_of_its_module() -> None:
    assert "pyspark_esp" in [module.name for module in pkgutil.iter_modules([str(ROOT)])]
    assert issubclass(pyspark_esp.DefaultSource, DataSource)
    assert pyspark_esp.DefaultSource.name() == "esp"
    assert pyspark_esp.DefaultSource is DefaultSource


def test_a_driver_without_pandas_is_told_so_before_its_query_begins() -> None:
    program = """
        from types import SimpleNamespace
        from esp.spark import exactly_once, write_once

        options = {"kafka.bootstrap.servers": "a:1"}
        for call in (
            lambda: exactly_once(SimpleNamespace(isStreaming=True), topic="t", sink="s", options=options),
            lambda: write_once(SimpleNamespace(isStreaming=False), topic="t", transaction="s", options=options),
        ):
            try:
                call()
            except ModuleNotFoundError as error:
                print(error)
    """
    done = run_without("pandas", program)
    lines = done.stdout.splitlines()
    assert len(lines) == 2, done.stderr
    assert all(
        line.startswith(f"the sink needs the package pandas, which {sys.executable} of this dr") for line in lines
    )


def test_executors_need_numpy_and_pyarrow_and_nothing_else() -> None:
    program = """
        import pyarrow as pa
        from pyspark_esp import DefaultSource
        from esp.arrow import checksums
        from esp.arrow.decoding import decode
        from esp.arrow.encoding import encode
        from esp.arrow.errors import Place
        from esp.consumer.security import read_security
        from esp.sink.functions import TaskFunction
        from esp.sink.rows import find_targets
        from esp.sink.task import place_rows, write_rows
        from esp.spark import exactly_once

        keyless = pa.RecordBatch.from_pydict({"value": ["a", "b"]})
        assert len(find_targets(keyless, "t", 3)) == 2
        source = DefaultSource({"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t"})
        source.reader(source.schema())
        source.streamReader(source.schema())
        assert checksums._native is None
        for codec in range(5):
            rows = pa.RecordBatch.from_pydict({"value": ["x" * number for number in range(300)]})
            data = b"".join(batch.data for batch in encode(rows, codec=codec, batch_bytes=9000))
            values = [value for batch in decode(data, Place("t", 0)) for value in batch.column("value").to_pylist()]
            assert values == [b"x" * number for number in range(300)]
        try:
            read_security({"security.protocol": "SSL"}).load_context_blocking()
        except Exception as error:
            print(error)
        """
    packages = "kio kafka crc32c cramjam cryptography OpenSSL msgspec rich typer uvloop h11 re2 prometheus_client hypothesis pandas"
    done = run_without(packages, program)
    assert done.returncode == 0, done.stderr
    assert "is not installed here, and keys and certificates need it" in done.stdout


@pytest.mark.parametrize("package", ["numpy", "pyarrow"])
def test_a_package_that_is_missing_is_told_when_the_format_is_used(package: str) -> None:
    done = run_without(
        package,
        """
        from pyspark_esp import DefaultSource
        assert DefaultSource.name() == "esp"
        try:
            DefaultSource({})
        except ModuleNotFoundError as error:
            print(error)
        """,
    )
    assert done.returncode == 0, done.stderr
    assert f"format esp needs the package {package}, which {sys.executable} does not have" in done.stdout


def test_a_schema_of_the_program_s_own_is_refused() -> None:
    source = DefaultSource(OPTIONS)
    others = DefaultSource(OPTIONS | {"columns": "key"}).schema()
    with pytest.raises(OptionError, match=r"option schema=struct<key:binary>: the columns are struct<key:binary,value"):
        source.reader(others)


def test_decoders_and_pandas_are_loaded_by_those_who_use_them() -> None:
    program = """
        import sys
        from pyspark_esp import DefaultSource
        import esp.spark

        base = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t"}
        DefaultSource(base).schema()
        assert not {"pyarrow.compute", "pyarrow.json", "pandas", "fastavro"} & set(sys.modules)
        print(DefaultSource({**base, "valueformat": "json", "valueschema": "a INT", "columns": "value"}).schema().simpleString())
        try:
            esp.spark.from_xml
        except AttributeError as error:
            print(error)
        """
    done = run_without("pandas fastavro", program)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["struct<a:int,_corrupt:binary>", "module esp.spark has no attribute from_xml"]
