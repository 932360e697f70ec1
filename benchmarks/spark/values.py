"""Values to columns: flights in JSON beside Spark's ``from_json``, and in Avro behind the ids of a registry beside its ``from_avro``."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  the name that every PySpark program uses
from pyspark.sql.avro.functions import from_avro

from benchmarks.client import delete_topic
from benchmarks.results import ESP
from benchmarks.spark.metrics import AVRO, JSON, Work
from benchmarks.spark.reading import read_batch
from benchmarks.spark.records import Batches, batches_of, fill_topic
from benchmarks.spark.session import Meters, Session
from benchmarks.stage import Stage, settle
from benchmarks.values import AVRO as AVRO_SCHEMA
from benchmarks.values import DDL, as_avro, as_json, make_flights
from esp.testing.node_process import NodeProcess

RECORDS: Final = 5_000_000
FLIGHTS: Final = 100_000
"""The flights that are different; they come again and again."""

_TOPIC: Final = "values"
_SCHEMA_ID: Final = 1
_HEADER: Final = b"\0" + _SCHEMA_ID.to_bytes(4)


def measure_json(stage: Stage, session: Session) -> None:
    """Measure JSON in each round.

    Raises:
        RuntimeError: a source made other columns than there are.
    """
    batches = batches_of(as_json(make_flights(FLIGHTS)).to_pylist())
    decoded = F.from_json(F.col("value").cast("string"), DDL)
    _measure(stage, session, JSON, batches, {"valueFormat": "json", "valueSchema": DDL}, decoded)


def measure_avro(stage: Stage, session: Session) -> None:
    """Measure Avro in each round. Ours asks a registry for the schema of each id; Spark's knows the one schema, and passes over the ids.

    Raises:
        RuntimeError: a source made other columns than there are.
    """
    batches = batches_of([_HEADER + value for value in as_avro(make_flights(FLIGHTS)).to_pylist()])
    with running_registry(AVRO_SCHEMA) as url:
        options = {"valueFormat": "avro", "schemaRegistry": url}
        behind_id = F.expr(f"substring(value, {len(_HEADER) + 1})")
        _measure(stage, session, AVRO, batches, options, from_avro(behind_id, AVRO_SCHEMA))


def _measure(
    stage: Stage,
    session: Session,
    work: Work,
    batches: Batches,
    options: Mapping[str, str],
    decoded: Column,
) -> None:
    """Measure a read by options of ours, and by Spark's ``decoded`` column of the value."""

    def read(name: str, node: NodeProcess) -> DataFrame:
        if name == ESP:
            return read_batch(session, name, node, _TOPIC, ("value",), options)
        return read_batch(session, name, node, _TOPIC, ("value",)).select(decoded.alias("flight")).select("flight.*")

    found = {}
    for name, node in stage.nodes.items():
        count = fill_topic(node, _TOPIC, stage.scaled(RECORDS), batches)
        settle(node)
        sums = "count(id)", "sum(arr_delay)", "sum(length(tailnum))", "max(event_time)"
        found[name] = (count, *read(name, node).selectExpr(*sums).collect()[0])
        if found[name][0] != found[name][1]:
            raise RuntimeError(f"{name}: {found[name][1]} flights were decoded of {count}")
    if len(set(found.values())) != 1:
        raise RuntimeError(f"the columns differ: {found}")
    stage.say(f"{count:,} flights")
    for number in stage.rounds():
        for name, node in stage.in_turn(number):
            meters = Meters(session.processes, node)
            with meters.running():
                read(name, node).write.format("noop").mode("overwrite").save()
            stage.take(name, meters.values(work), number)
    for node in stage.nodes.values():
        delete_topic(node.port, _TOPIC)


@contextmanager
def running_registry(schema: str) -> Iterator[str]:
    """A schema registry that has one schema, the newest of every subject; its URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer = (
                {"schema": schema} if self.path.startswith("/schemas/ids/") else {"schema": schema, "id": _SCHEMA_ID}
            )
            body = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_arguments: Any) -> None:
            """Nothing on stderr."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
