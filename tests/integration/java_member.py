"""A member of a consumer group that is Kafka's own: its verifiable consumer, in a process of its own."""

import json
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Any, Final, Self

from esp.testing.kafka_tools import KafkaTools

_END_TIMEOUT_S: Final = 60
_DUMP_S: Final = 5
"""So long the process may write down what its threads do."""
_LAST_EVENTS: Final = 20


class JavaMember:
    """One member: it reads from its start until :meth:`leave`, and commits what it has read.

    Args:
        tools: Kafka's tools.
        bootstrap: where the cluster is found.
        topic: what it reads.
        group: the group's name.
        scratch: a directory for its settings.
        session_ms: after so long without a sign of life it is out.
        strategy: the assignor's class, without its package.
        protocol: of the group; with ``consumer`` (KIP-848) times and assignor are the coordinator's.
        options: further options of the tool.
        client_settings: further settings of the client, as lines of a file.
    """

    def __init__(
        self,
        tools: KafkaTools,
        bootstrap: str,
        topic: str,
        group: str,
        scratch: Path,
        *,
        session_ms: int = 10_000,
        strategy: str = "RangeAssignor",
        protocol: str = "classic",
        options: tuple[str, ...] = (),
        client_settings: str = "",
    ) -> None:
        self.events: list[dict[str, Any]] = []
        """What it told of itself, in order."""
        self.assigned: frozenset[int] = frozenset()
        """Its partitions now."""
        self._other_lines: list[str] = []
        self._messages = scratch / "java-member.stderr"
        settings = scratch / "java-member.properties"
        is_classic = protocol == "classic"
        own = "metadata.max.age.ms=1000\n" + is_classic * "heartbeat.interval.ms=300\n"
        settings.write_text(f"{client_settings}\n{own}")
        of_protocol: tuple[str, ...] = ("--group-protocol", protocol)
        if is_classic:
            of_protocol = (
                *("--session-timeout", str(session_ms)),
                *("--assignment-strategy", f"org.apache.kafka.clients.consumer.{strategy}"),
            )
        self._tools = tools
        self._arguments = (
            *("--bootstrap-server", bootstrap, "--topic", topic, "--group-id", group),
            *("--command-config", str(settings), *of_protocol, *options),
        )

    def start(self) -> Self:
        """Begin to join and read."""
        self._process = self._tools.start("verifiable-consumer", *self._arguments, messages=self._messages)
        self._listener = Thread(target=self._listen, daemon=True)
        self._listener.start()
        return self

    def pause(self) -> None:
        """Stop the process as if its machine stood still."""
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Let a paused process run again."""
        self._process.send_signal(signal.SIGCONT)

    def leave(self) -> None:
        """Leave the group, and end."""
        self._process.terminate()
        self._end()

    def kill(self) -> None:
        """End the process at once, if it runs: the group is not told."""
        self._process.kill()
        self._end()

    def named(self, name: str) -> list[dict[str, Any]]:
        """The events of that name."""
        return [event for event in self.events if event["name"] == name]

    @property
    def read(self) -> int:
        """How many records it has read."""
        return sum(event["count"] for event in self.named("records_consumed"))

    def _end(self) -> None:
        try:
            self._process.wait(_END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the member does not end:\n{self._last_words()}") from None
        self._listener.join(_END_TIMEOUT_S)
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
        self.assigned = frozenset()

    def _last_words(self) -> str:
        """End the process at once; return its last events, what its threads did, and its messages."""
        self._process.send_signal(signal.SIGQUIT)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_DUMP_S)
        self._process.kill()
        self._listener.join(_END_TIMEOUT_S)
        events = "\n".join(map(str, self.events[-_LAST_EVENTS:]))
        return f"{events}\n{''.join(self._other_lines)}\n{self._messages.read_text()}"

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if not line.startswith("{"):
                self._other_lines.append(line)
                continue
            event = json.loads(line)
            changed = frozenset(each["partition"] for each in event.get("partitions", ()) if isinstance(each, dict))
            if event["name"] == "partitions_assigned":
                self.assigned |= changed
            elif event["name"] == "partitions_revoked":
                self.assigned -= changed
            self.events.append(event)
