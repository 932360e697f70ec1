"""Kafka's own integration tests of share consumers, ``ShareConsumerTest`` with its 100 methods, against ESP and against Kafka.

    python -m tests.integration.share_conformance [--on esp,kafka] [METHOD ...]

The tests come from Maven as Kafka publishes them. They expect a cluster inside their own JVM: ``ShareConformance.java`` puts a proxy in its
place, which knows where the cluster is found, and has brokers stopped and started from here. Methods that need the same brokers' settings
share a cluster, which is emptied before each; one that has failed, or has stopped a broker, leaves a new one to the next.

The exit status is 1 if a method fails that is not in :data:`EXEMPTIONS`, if one of those passes, or if a cluster does not start.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, Self

import typer

from esp.testing.cluster import Cluster, MakeNode
from esp.testing.kafka_tools import SHORT_RUN_OPTIONS, KafkaTools, ToolsMissingError
from esp.testing.node import Node
from esp.testing.node_process import NodeError
from esp.testing.real_kafka import RealKafka

PRODUCTS: Final = ("esp", "kafka")
PROGRAM: Final = Path(__file__).with_name("ShareConformance.java")
TESTS_POM: Final = Path(__file__).with_name("share_conformance_pom.xml")
"""The jars with the tests, a few megabytes beside the broker's jars."""

METHOD_TIMEOUT_S: Final = 240.0

REMEDY: Final = (
    "The methods after it were not run. If the node was only too slow, run again when the machine has less to do, and name the methods"
    " that are left; else run again with --directory DIRECTORY, which keeps the nodes' files and logs."
)
"""What to do if a cluster does not start."""

_LINE_END: Final = "\x1f"
_SHOWN: Final = 4000
"""Characters of a stack."""


class Exemption(NamedTuple):
    """A method that fails, and where it must."""

    reason: str
    words: str
    """What its failure says, in message or stack: all that the method judges before has passed."""
    products: Sequence[str] = PRODUCTS


_METER: Final = Exemption("reads a meter of the broker from the registry of its own JVM", ".verifyYammerMetricCount(")
_MARKER: Final = Exemption(
    "awaits a transaction's marker at a member; ESP passes over it",
    "Failed to consume abort transaction and marker offset for Message 2",
    ("esp",),
)

EXEMPTIONS: Final[Mapping[str, Exemption]] = {
    "testAlterReadCommittedToReadUncommittedIsolationLevelWithRejectAck": _MARKER,
    "testAlterReadCommittedToReadUncommittedIsolationLevelWithReleaseAck": _MARKER,
    "testRenewAcknowledgementInvalidStateRecord": _METER,
    "testRenewAcknowledgementNoResultInPoll": _METER,
    "testRenewAcknowledgementOnCommitSync": _METER,
    "testRenewAcknowledgementOnPoll": _METER,
}
"""The methods that do not apply: to no broker of another process, Kafka's own included, or not to ESP, which differs on purpose."""

_TEST_KIT: Final = {
    "offsets.topic.num.partitions": "5",
    "transaction.state.log.num.partitions": "5",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "1000",
}
"""What the clusters of Kafka's tests have by default."""


class Needs(NamedTuple):
    """The cluster that a method wants."""

    brokers: int
    settings: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a method ended.

    Args:
        method: its name.
        product: that it ran on, one of :data:`PRODUCTS`.
        seconds: that it took, the emptying of the cluster not counted.
        failure: the stack of the exception with which it failed; empty if it passed.
    """

    method: str
    product: str = "esp"
    seconds: float = 0.0
    failure: str = ""

    @property
    def exemption(self) -> Exemption | None:
        """The entry of the method, if it does not apply to the product."""
        found = EXEMPTIONS.get(self.method)
        return found if found is not None and self.product in found.products else None

    @property
    def verdict(self) -> str:
        """``passed``, ``exempt`` (failed where it must), ``FAILED``, or ``PASSED`` though it is listed as one that does not apply."""
        exemption = self.exemption
        if not self.failure:
            return "passed" if exemption is None else "PASSED"
        return "exempt" if exemption is not None and exemption.words in self.failure else "FAILED"

    @property
    def is_fine(self) -> bool:
        """True if it ended as it must."""
        return self.verdict.islower()


class Ending(NamedTuple):
    """What the driver told of a method."""

    seconds: float
    failure: str
    has_stopped: bool
    """True if a broker was stopped."""


class Driver:
    """The JVM in which the methods run, one after the other.

    Args:
        tools: the jars of Kafka's broker.
        tests: the jars with its tests.
        messages: the file for what the tests' clients log.
    """

    def __init__(self, tools: KafkaTools, tests: KafkaTools, messages: Path) -> None:
        with messages.open("a") as stderr:
            self._process = subprocess.Popen(
                [*_command(tools, tests), "run"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
            )

    def run(self, method: str, cluster: Cluster) -> Ending:
        """Run a method."""
        ids = ",".join(map(str, cluster.nodes))
        self._say(f"{method}\t{cluster.bootstrap}\t{ids}")
        has_stopped = False
        limit = threading.Timer(METHOD_TIMEOUT_S, self._process.kill)
        limit.start()
        try:
            assert self._process.stdout is not None
            for line in self._process.stdout:
                word, *details = line.rstrip("\n").split("\t")
                if word in ("passed", "failed"):
                    seconds, failure = details
                    return Ending(float(seconds), failure.replace(_LINE_END, "\n"), has_stopped)
                has_stopped = True
                node = cluster.nodes[int(details[0]) or 1]  # a single node is broker 0 for the tests
                try:
                    node.stop() if word == "stop" else node.start()
                except NodeError as error:
                    return Ending(0.0, str(error), has_stopped)
                self._say("done")
        finally:
            limit.cancel()
        return Ending(METHOD_TIMEOUT_S, f"no end within {METHOD_TIMEOUT_S:.0f} s, or the JVM has ended", has_stopped)

    def close(self) -> None:
        """End the JVM, whatever its threads do."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()

    def _say(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()


@dataclass(slots=True)
class Suite:
    """The tests, and what they need; as a context manager it ends on exit what it has started.

    Args:
        tools: the jars of Kafka's broker.
        tests: the jars with its tests.
        directory: for the clusters.
    """

    tools: KafkaTools
    tests: KafkaTools
    directory: Path
    _driver: Driver | None = None
    _clusters: int = 0

    def methods(self) -> dict[str, Needs]:
        """All methods, in order of their names."""
        done = subprocess.run([*_command(self.tools, self.tests), "list"], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise ToolsMissingError(
                f"the tests cannot be listed; a JDK is needed to compile {PROGRAM.name}:\n{done.stderr}"
            )
        found = {}
        for line in done.stdout.splitlines():
            name, brokers, *settings = line.split("\t")
            named = dict(setting.split("=", 1) for setting in settings)
            found[name] = Needs(int(brokers), tuple(sorted((_TEST_KIT | named).items())))
        return found

    def run(self, methods: Mapping[str, Needs], product: str) -> Iterator[Outcome]:
        """Run methods on a product: ``esp`` or ``kafka``.

        Raises:
            NodeError: a cluster did not start.
        """
        for needs in dict.fromkeys(methods.values()):
            left = [name for name, of_method in methods.items() if of_method == needs]
            while left:
                with closing(self._cluster(product, needs)) as cluster:
                    cluster.start()
                    is_clean = True
                    while left and is_clean:
                        self._driver = self._driver or Driver(self.tools, self.tests, self.directory / "driver.stderr")
                        method = left.pop(0)
                        ending = self._driver.run(method, cluster)
                        is_clean = not ending.failure and not ending.has_stopped
                        if ending.failure:
                            self.close()
                        yield Outcome(method, product, ending.seconds, ending.failure)

    def close(self) -> None:
        """End the JVM."""
        if self._driver is not None:
            self._driver.close()
            self._driver = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _cluster(self, product: str, needs: Needs) -> Cluster:
        self._clusters += 1
        make_node: MakeNode = Node if product == "esp" else partial(RealKafka, tools=self.tools)
        directory = self.directory / f"{product}-{self._clusters}"
        return Cluster(directory, needs.brokers, dict(needs.settings), make_node=make_node)


def find_suite(directory: Path) -> Suite:
    """Return the suite; what it needs is fetched first.

    Raises:
        ToolsMissingError: Java, Maven or the jars cannot be had here.
    """
    return Suite(KafkaTools.find(), KafkaTools.find(TESTS_POM), directory)


def _command(tools: KafkaTools, tests: KafkaTools) -> list[str]:
    command = tools.command(str(PROGRAM), options=SHORT_RUN_OPTIONS)
    at = command.index("-cp") + 1
    command[at] += f":{tests.library_dir}/*"
    return command


def table(outcomes: Mapping[str, Sequence[Outcome]]) -> str:
    """Return a line for each method, with seconds and verdict by each product, the sums, and what failures said."""
    methods = dict.fromkeys(outcome.method for of_product in outcomes.values() for outcome in of_product)
    width = max(map(len, methods), default=0)
    cells = {(outcome.product, outcome.method): outcome for some in outcomes.values() for outcome in some}
    lines = [f"{'':{width}}" + "".join(f"  {product:>6}  {'':7}" for product in outcomes).rstrip()]
    for method in methods:
        found = [cells.get((product, method)) for product in outcomes]
        columns = (f"{'-':>6}  {'':7}" if one is None else f"{one.seconds:6.1f}  {one.verdict:7}" for one in found)
        reasons = {one.exemption.reason for one in found if one is not None and one.exemption is not None}
        lines.append(f"{method:{width}}  {'  '.join((*columns, *reasons))}".rstrip())
    for product, some in outcomes.items():
        verdicts = [outcome.verdict for outcome in some]
        counts = (f"{verdicts.count(verdict)} {verdict}" for verdict in dict.fromkeys(verdicts))
        lines.append(f"{product}: of {len(some)} methods {', '.join(counts)}")
    lines += [
        f"\n{product} {one.method}:\n{one.failure[:_SHOWN]}"
        for product, some in outcomes.items()
        for one in some
        if not one.is_fine
    ]
    return "\n".join(lines)


def main() -> int:
    """Run what the command line asks for, and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.integration.share_conformance",
        description="Run Kafka's own ShareConsumerTest, fetched by Maven, against a product. A method takes 6 to 24 s.",
        epilog="Verdicts: passed; exempt: does not apply, for the reason beside it, and has failed where it must; FAILED;"
        " PASSED: is listed as exempt, and passes.",
    )
    parser.add_argument("methods", nargs="*", help="some of the methods, or beginnings of their names (default: all)")
    parser.add_argument(
        "--on", default="esp", help="esp, kafka, or both with a comma; kafka is the control (default: esp)"
    )
    parser.add_argument(
        "--directory", type=Path, help="for the files of the run, which are kept then (default: a temporary one)"
    )
    options = parser.parse_args()
    products = options.on.split(",")
    if unknown := sorted(set(products) - set(PRODUCTS)):
        parser.error(f"--on takes {' and '.join(PRODUCTS)}, not: {', '.join(unknown)}")
    with tempfile.TemporaryDirectory(prefix="esp-share-conformance-") as temporary:
        try:
            suite = find_suite(options.directory or Path(temporary))
            known = suite.methods()
        except ToolsMissingError as error:
            typer.echo(f"skipped: {error}")
            return 1 if os.environ.get("ESP_REQUIRE_ALL") == "1" else 0
        chosen = {
            name: needs
            for name, needs in known.items()
            if not options.methods or name.startswith(tuple(options.methods))
        }
        if not chosen:
            parser.error(f"no method begins so: {', '.join(options.methods)}")
        suite.directory.mkdir(parents=True, exist_ok=True)
        outcomes: dict[str, list[Outcome]] = {product: [] for product in products}
        try:
            with suite:
                for product in products:
                    for outcome in suite.run(chosen, product):
                        first_line = outcome.failure.partition("\n")[0]
                        typer.echo(
                            f"{product} {outcome.method} {outcome.verdict} {outcome.seconds:.1f} {first_line}".rstrip()
                        )
                        outcomes[product].append(outcome)
        except NodeError as error:
            typer.echo(f"{table(outcomes)}\n\na cluster of {product} did not start: {error}\n{REMEDY}")
            return 1
    typer.echo(table(outcomes))
    return 0 if all(outcome.is_fine for some in outcomes.values() for outcome in some) else 1


if __name__ == "__main__":
    sys.exit(main())
