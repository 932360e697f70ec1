"""``make ecosystem``: the programs of Kafka's ecosystem on a cluster, which are killed while they work, and what must come out of them.

    python -m tests.ecosystem [--on esp|kafka] [--nodes 3 --kill-nodes] [--only streams,connect]

Each program has a cluster of its own, whose ``transaction.version`` is 2. With ``--on kafka`` the cluster is Apache Kafka 4.3.1: the
control, which proves the judgement. The exit status is 1 if a program's records are not what they must be; the directory is kept then.
"""

import argparse
import contextlib
import importlib
import logging
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import typer

from esp.testing.kafka_tools import ECOSYSTEM_POM, KafkaTools, ToolsMissingError
from tests.ecosystem.clusters import PRODUCTS, make_cluster, serve_transactions
from tests.ecosystem.files import judge_files
from tests.ecosystem.report import exit_status, table
from tests.ecosystem.stage import Outcome, Stage

_LOGGER: Final = logging.getLogger(__name__)

PROGRAMS: Final = ("streams", "connect", "mirror", "copiers", "handover", "spark", "verifiable", "transactions_tool")
"""Modules of this package with a function ``run``; Spark's is imported only when it runs."""

KILLS: Final = 6


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.ecosystem", description=__doc__)
    parser.add_argument("--on", choices=PRODUCTS, default="esp", help="the product under test; kafka is the control")
    parser.add_argument("--nodes", type=int, choices=(1, 3), default=1, help="nodes of the cluster")
    parser.add_argument("--kill-nodes", action="store_true", help="kill the nodes in turn as well (-9); needs three")
    parser.add_argument("--kills", type=int, default=KILLS, help="how often processes of each program are killed")
    parser.add_argument("--only", default=",".join(PROGRAMS), help="some of the programs: %(default)s")
    parser.add_argument("--directory", type=Path, help="for the files of the run (default: a temporary one)")
    options = parser.parse_args()
    chosen = options.only.split(",")
    if unknown := sorted(set(chosen) - set(PROGRAMS)):
        parser.error(f"no such program: {', '.join(unknown)}")
    if options.kill_nodes and options.nodes < 3:
        parser.error("--kill-nodes needs --nodes 3")
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    for library in ("py4j", "kafka"):
        logging.getLogger(library).setLevel(logging.ERROR)
    try:
        broker_tools, jars = KafkaTools.find(), KafkaTools.find(ECOSYSTEM_POM)
    except ToolsMissingError as error:
        typer.echo(f"skipped: {error}")
        return 1 if os.environ.get("ESP_REQUIRE_ALL") == "1" else 0
    directory = options.directory or Path(tempfile.mkdtemp(prefix="esp-ecosystem-"))
    outcomes: list[Outcome] = []
    for name in chosen:
        place = directory / name
        cluster = make_cluster(options.on, place / "cluster", options.nodes, broker_tools)
        stage = Stage(options.on, cluster, broker_tools, jars, place, options.kills, options.kill_nodes)
        for outcome in _run(name, stage):
            _LOGGER.info("%s", table([outcome]).partition("\n")[2])
            outcomes.append(outcome)
    typer.echo(table(outcomes))
    status = exit_status(outcomes)
    if status == 0:
        shutil.rmtree(directory)
    else:
        typer.echo(f"files and logs: {directory}")
    return status


def _run(name: str, stage: Stage) -> Iterator[Outcome]:
    """Run a program on its cluster; a failure is an outcome with one violation, and the logs go to the program's directory."""
    _LOGGER.info("%s on %s", name, stage.product)
    began = time.monotonic()
    try:
        with stage.cluster, contextlib.closing(stage):
            serve_transactions(stage.cluster)
            for outcome in importlib.import_module(f"tests.ecosystem.{name}").run(stage):
                outcome.seconds = time.monotonic() - began
                began = time.monotonic()
                yield outcome
        if stage.product == "esp":  # Kafka's nodes are killed when the run ends
            outcome = judge_files(stage, name)
            outcome.seconds = time.monotonic() - began
            yield outcome
    except Exception as error:
        _LOGGER.exception("%s broke off; the last of its output:\n%s", name, stage.output)
        first_line = str(error).partition("\n")[0]
        yield Outcome(name, 0, 0, [f"{type(error).__name__}: {first_line}"], time.monotonic() - began)


sys.exit(main())
