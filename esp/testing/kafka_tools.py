"""Kafka's own command-line tools, from its published jars: the judges of whether a node really speaks Kafka.

The jars are fetched once by Maven, from a pom beside this module, into a cache folder that parallel test runs share. There are two groups
of jars with a folder each: the tools with the broker, and the programs of the ecosystem (Streams, Connect, MirrorMaker), which only
``make ecosystem`` fetches. A tool's exit status often says nothing (dump-log, console-consumer and get-offsets exit with 0 after failures):
tests look at the output.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

HOME_VARIABLE: Final = "ESP_KAFKA_TOOLS_HOME"
"""Environment variable that names another cache folder."""

DEFAULT_HOME: Final = "~/.cache/esp-kafka-tools"

TOOL_CLASSES: Final = {
    "acls": "org.apache.kafka.tools.AclCommand",
    "broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "cluster": "org.apache.kafka.tools.ClusterTool",
    "configs": "kafka.admin.ConfigCommand",
    "console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "console-share-consumer": "org.apache.kafka.tools.consumer.ConsoleShareConsumer",
    "consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "consumer-perf-test": "org.apache.kafka.tools.ConsumerPerformance",
    "delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "dump-log": "org.apache.kafka.tools.DumpLogSegments",
    "e2e-latency": "org.apache.kafka.tools.EndToEndLatency",
    "features": "org.apache.kafka.tools.FeatureCommand",
    "get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka": "kafka.Kafka",
    "leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "share-groups": "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
    "storage": "kafka.tools.StorageTool",
    "topics": "org.apache.kafka.tools.TopicCommand",
    "transactions": "org.apache.kafka.tools.TransactionsCommand",
    "verifiable-consumer": "org.apache.kafka.tools.VerifiableConsumer",
    "verifiable-producer": "org.apache.kafka.tools.VerifiableProducer",
    "verifiable-share-consumer": "org.apache.kafka.tools.VerifiableShareConsumer",
}
"""Main class of each tool, by the name of its shell script without ``kafka-`` and ``.sh``."""

SHORT_RUN_OPTIONS: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData")
"""For tools that live a second or two: half the CPU time of the defaults."""

TOOLS_POM: Final = Path(__file__).with_name("kafka_tools_pom.xml")
"""Kafka's broker and command-line tools."""

ECOSYSTEM_POM: Final = Path(__file__).with_name("kafka_ecosystem_pom.xml")
"""Streams with its examples, Connect with the file connectors, and MirrorMaker: 107 MB."""

_LOG4J: Final = Path(__file__).with_name("log4j2.properties")
_FETCH_TIMEOUT_S: Final = 600


class ToolsMissingError(Exception):
    """Kafka's tools cannot be had on this machine; the message says what is missing."""


class KafkaTools:
    """Runs Kafka's tools.

    Args:
        library_dir: holds the jars.
        options: of the JVM, for all of them.
    """

    def __init__(self, library_dir: Path, options: Sequence[str] = ()) -> None:
        self.library_dir = library_dir
        self._options = options

    @classmethod
    def find(cls, pom: Path = TOOLS_POM) -> "KafkaTools":
        """Return the tools of the cache folder, fetched first if need be (half a minute with a good connection).

        Args:
            pom: names the group of jars: :data:`TOOLS_POM` or :data:`ECOSYSTEM_POM`.

        Raises:
            ToolsMissingError: there is no Java or no Maven, or Maven could not fetch the jars.
        """
        if shutil.which("java") is None:
            raise ToolsMissingError("Kafka's tools need Java: no `java` on the PATH (Debian: openjdk-17-jre-headless)")
        key = hashlib.sha256(pom.read_bytes()).hexdigest()[:12]
        home = Path(os.environ.get(HOME_VARIABLE, DEFAULT_HOME)).expanduser() / key
        complete = home / "complete"
        if not complete.exists():
            home.mkdir(parents=True, exist_ok=True)
            with (home / "lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                if not complete.exists():
                    _fetch(home, pom)
                    complete.touch()
        return cls(home / "libs")

    def with_options(self, *options: str) -> "KafkaTools":
        """The same tools with further options of the JVM."""
        return KafkaTools(self.library_dir, (*self._options, *options))

    def command(self, tool: str, *arguments: str, heap: str = "256m", options: Sequence[str] = ()) -> list[str]:
        """Return the command line of a tool: a name in :data:`TOOL_CLASSES` or any main class."""
        return [
            "java",
            f"-Xmx{heap}",
            *self._options,
            *options,
            f"-Dlog4j2.configurationFile={_LOG4J}",
            "-cp",
            f"{self.library_dir}/*",
            TOOL_CLASSES.get(tool, tool),
            *arguments,
        ]

    def run(
        self, tool: str, *arguments: str, stdin: str = "", timeout_s: float = 60
    ) -> subprocess.CompletedProcess[str]:
        """Run a tool to its end and return its output, whatever its exit status.

        Raises:
            subprocess.TimeoutExpired: it took longer; it was ended.
        """
        return subprocess.run(  # noqa: S603 - the command is made here; arguments come from tests
            self.command(tool, *arguments, options=SHORT_RUN_OPTIONS),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )

    def start(self, tool: str, *arguments: str, messages: Path) -> subprocess.Popen[str]:
        """Start a tool that runs on, with pipes to its stdin and from its stdout; the caller ends it.

        Args:
            tool: a name in :data:`TOOL_CLASSES` or any main class.
            arguments: of the tool.
            messages: the file that its stderr is appended to. A pipe that is not read all the time holds up the tool once it is full.
        """
        with messages.open("a") as stderr:
            return subprocess.Popen(  # noqa: S603 - the command is made here; arguments come from tests
                self.command(tool, *arguments, options=SHORT_RUN_OPTIONS),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
            )


def _fetch(home: Path, source: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise ToolsMissingError("Kafka's tools are fetched by Maven: no `mvn` on the PATH (Debian: maven)")
    libraries = home / "libs"
    shutil.rmtree(libraries, ignore_errors=True)
    pom = home / "pom.xml"
    shutil.copy(source, pom)
    done = subprocess.run(  # noqa: S603 - the command is made here
        [maven, "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", f"-DoutputDirectory={libraries}"],
        capture_output=True,
        text=True,
        timeout=_FETCH_TIMEOUT_S,
        check=False,
    )
    if done.returncode != 0:
        raise ToolsMissingError(f"Maven could not fetch Kafka's jars:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
