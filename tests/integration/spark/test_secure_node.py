"""Spark's source and sink on a node that serves only clients that log in over TLS, with the settings that ``--secure`` has written."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from esp.testing.ports import free_port
from esp.testing.pytest_plugin import AGAINST_KAFKA
from tests.integration.conftest import eventually
from tests.integration.secure_nodes import Secure, done, secure_node

pytestmark = pytest.mark.skipif(AGAINST_KAFKA, reason="our own option --secure")

ROUNDS, RECORDS = 3, 200
TAKEN = "the listener CLIENTS uses the changed files"


@pytest.fixture
def secure(tmp_path: Path) -> Iterator[Secure]:
    made = secure_node(tmp_path, free_port(), "--set", "delegation.token.secret.key=secret")
    try:
        yield made.start()
    finally:
        made.end()


def test_a_token_writes_and_reads(spark: SparkSession, secure: Secure) -> None:
    done(secure.run("topics", "--create", "--topic", "by-token"))
    setting = done(secure.run("tokens", "create")).strip()
    options = {**secure.spark(), "kafka.sasl.jaas.config": setting.removeprefix("sasl.jaas.config=")}
    values = [(f"{number}",) for number in range(RECORDS)]
    for source in ("kafka", "esp"):
        frame = spark.createDataFrame(values, "value string")
        frame.write.format(source).mode("append").options(**options).option("topic", "by-token").save()
    expected = sorted(value for (value,) in values * 2)
    for source in ("kafka", "esp"):
        batch = spark.read.format(source).options(**options).option("subscribe", "by-token").load()
        found = sorted(row.value for row in batch.selectExpr("CAST(value AS STRING) AS value").collect())
        assert found == expected, source


def renew_certificate(secure: Secure) -> None:
    renewed = subprocess.run(
        [sys.executable, "-m", "esp", "certs", "renew", "node-1", "--dir", str(secure.security / "certs")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    done(renewed)


@pytest.mark.parametrize("source", ["kafka", "esp"])
def test_a_query_runs_on_through_new_certificates(
    spark: SparkSession, secure: Secure, tmp_path: Path, source: str
) -> None:
    done(secure.run("topics", "--create", "--topic", "t", "--partitions", "2"))
    stream = spark.readStream.format(source).options(**secure.spark()).option("subscribe", "t")
    query = (
        stream.option("startingOffsets", "earliest")
        .load()
        .selectExpr("CAST(value AS STRING) AS value")
        .writeStream.format("parquet")
        .option("path", str(tmp_path / "out"))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(processingTime="500 milliseconds")
        .start()
    )
    try:
        for number in range(ROUNDS):
            values = [(f"{number}/{record}",) for record in range(RECORDS)]
            frame = spark.createDataFrame(values, "value string")
            frame.write.format(source).mode("append").options(**secure.spark()).option("topic", "t").save()
            renew_certificate(secure)
            eventually(lambda taken=number + 1: secure.output.count(TAKEN) == taken, 30)
        eventually(lambda: sum(each["numInputRows"] for each in query.recentProgress) >= ROUNDS * RECORDS, 60)
        assert query.isActive
        assert query.exception() is None
    finally:
        query.stop()
    found = sorted(row.value for row in spark.read.parquet(str(tmp_path / "out")).collect())
    assert found == sorted(f"{number}/{record}" for number in range(ROUNDS) for record in range(RECORDS))


def test_a_stream_goes_on_through_a_new_certificate(spark: SparkSession, secure: Secure, tmp_path: Path) -> None:
    done(secure.run("topics", "--create", "--topic", "t", "--partitions", "2"))
    out, checkpoint = str(tmp_path / "out"), str(tmp_path / "checkpoint")
    for number in range(ROUNDS):
        values = [(f"{number}/{record}",) for record in range(RECORDS)]
        frame = spark.createDataFrame(values, "value string")
        frame.write.format("kafka").options(**secure.spark()).option("topic", "t").save()
        stream = spark.readStream.format("kafka").options(**secure.spark())
        read = stream.option("subscribe", "t").option("startingOffsets", "earliest").load()
        query = (
            read.selectExpr("CAST(value AS STRING) AS value")
            .writeStream.format("parquet")
            .option("path", out)
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)
        renew_certificate(secure)
    found = sorted(row.value for row in spark.read.parquet(out).collect())
    assert found == sorted(f"{number}/{record}" for number in range(ROUNDS) for record in range(RECORDS))
    for source in ("kafka", "esp"):
        batch = spark.read.format(source).options(**secure.spark()).option("subscribe", "t").load()
        assert batch.count() == ROUNDS * RECORDS
