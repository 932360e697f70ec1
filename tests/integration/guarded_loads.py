"""Numbers that are written to a topic and read by groups, by each kind of client, while a test does things to the cluster."""

import asyncio
import contextlib
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer

from esp.testing.kafka_tools import KafkaTools
from tests.integration.conftest import eventually
from tests.integration.guarded_cluster import GuardedCluster
from tests.integration.kafka_python import subscribe

PAUSE_S: Final = 0.01
"""Between two records."""
WAIT_S: Final = 120
STOP_S: Final = 15
JAVA_PROGRAM: Final = Path(__file__).with_name("JavaClients.java")
ALLOWED_URLS: Final = "-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls="

Read = Iterable[tuple[int, bytes]]
"""Offsets, with the records' values."""


class Load:
    """One writer with its readers: what it has written, and what each group has read, by offset.

    Args:
        way: the way in.
        readers: the clients that read, each in a group of its own.
        wait_s: the longest wait for one of its clients.
    """

    def __init__(self, way: str, readers: Sequence[str], wait_s: float = WAIT_S) -> None:
        self.written = 0
        self.read: list[dict[int, bytes]] = [{} for _ in readers]
        self.failures: list[str] = []
        self.stops_writing = threading.Event()
        self.stops_reading = threading.Event()
        self.has_written = threading.Event()
        """All that was written is acknowledged."""
        self.states: dict[str, Callable[[], object]] = {}
        """The state of a reader's client, by its name; not every client can tell it."""
        self._way = way
        self._readers = readers
        self._wait_s = wait_s
        self._threads: list[threading.Thread] = []

    def __str__(self) -> str:
        read = [f"{name} {len(read)}" for name, read in zip(self._readers, self.read, strict=True)]
        states = [f"; {name}: {state()}" for name, state in self.states.items()]
        failures = [f"; failed: {failure}" for failure in self.failures]
        return f"{self._way}: {self.written} written; read: {', '.join(read)}{''.join(states + failures)}"

    def run(self, body: Callable[[], None]) -> None:
        """Run one of its parts in a thread."""

        def guarded() -> None:
            try:
                body()
            except BaseException as error:
                self.failures.append(repr(error))

        self._threads.append(threading.Thread(target=guarded))
        self._threads[-1].start()

    def until_more(self, count: int) -> None:
        """Wait until all groups have read as many more."""
        goals = [len(read) + count for read in self.read]

        def is_there() -> bool:
            assert not self.failures, str(self)
            return all(len(read) >= goal for read, goal in zip(self.read, goals, strict=True))

        eventually(is_there, self._wait_s, lambda: f"{self}; each should have read {goals}")

    def end(self) -> None:
        """Each number that was written must be in the topic once, in order, and read by all groups; ``stops_writing`` is set."""
        assert self.has_written.wait(self._wait_s), str(self)
        expected = [b"%d" % number for number in range(self.written)]
        eventually(lambda: all(len(read) >= len(expected) for read in self.read), self._wait_s, self.__str__)
        assert not self.failures, str(self)
        for name, read in zip(self._readers, self.read, strict=True):
            assert [read[offset] for offset in sorted(read)] == expected, f"{self._way}: {name}"

    def stop(self) -> None:
        """End it, whatever it does; :meth:`join` waits for that."""
        self.stops_writing.set()
        self.stops_reading.set()

    def join(self) -> None:
        """Wait until it has ended."""
        for thread in self._threads:
            thread.join(self._wait_s)
            assert not thread.is_alive(), f"a client does not end: {self}"

    def write(self, send: Callable[[bytes], None], finish: Callable[[], None]) -> None:
        """Send one number after another."""
        while not self.stops_writing.wait(PAUSE_S):
            send(b"%d" % self.written)
            self.written += 1
        finish()
        self.has_written.set()

    def poll(self, index: int, poll: Callable[[], Read], close: Callable[[], None]) -> None:
        """Read as one of the groups."""
        try:
            while not self.stops_reading.is_set():
                self.read[index].update(poll())
        finally:
            close()


def of_librdkafka_and_kafka_python(cluster: GuardedCluster, topics: dict[str, str]) -> dict[str, Load]:
    """confluent-kafka writes and reads; kafka-python reads. Its producer, 3.0.12, now and then calls a killed leader again and again."""
    made = {}
    for way, topic in topics.items():
        options = cluster.librdkafka(way)
        made[way] = load = Load(way, ("librdkafka", "kafka-python"))
        load.run(lambda load=load, options=options, topic=topic: _write_by_librdkafka(load, options, topic))
        load.run(lambda load=load, options=options, topic=topic: _read_by_librdkafka(load, options, topic))
        python = cluster.kafka_python(way)
        load.run(lambda load=load, python=python, topic=topic: _read_by_kafka_python(load, python, topic))
    return made


def _write_by_librdkafka(load: Load, options: dict[str, Any], topic: str) -> None:
    producer = Producer(options | {"enable.idempotence": True, "linger.ms": 0, "message.timeout.ms": WAIT_S * 1000})

    def note(error: object, _message: object) -> None:
        if error is not None:
            load.failures.append(str(error))

    def send(value: bytes) -> None:
        producer.produce(topic, value, on_delivery=note)
        producer.poll(0)

    def finish() -> None:
        assert producer.flush(WAIT_S) == 0

    load.write(send, finish)


def _read_by_librdkafka(load: Load, options: dict[str, Any], topic: str) -> None:
    consumer = Consumer(options | {"group.id": f"librdkafka-{topic}", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])

    def poll() -> Read:
        messages = consumer.consume(100, 0.2)
        return [(each.offset(), each.value()) for each in messages if each.error() is None]

    load.poll(0, poll, consumer.close)


def _read_by_kafka_python(load: Load, options: dict[str, Any], topic: str) -> None:
    consumer = KafkaConsumer(group_id=f"kafka-python-{topic}", auto_offset_reset="earliest", **options)
    load.states["kafka-python"] = lambda: (consumer.group_metadata(), consumer.assignment())
    subscribe(consumer, topic)

    def poll() -> Read:
        found = consumer.poll(timeout_ms=200).values()
        return [(each.offset, each.value) for records in found for each in records]

    load.poll(1, poll, consumer.close)


def of_aiokafka(cluster: GuardedCluster, topics: dict[str, str]) -> dict[str, Load]:
    """aiokafka writes and reads."""
    made = {}
    for way, topic in topics.items():
        made[way] = load = Load(way, ("aiokafka",))
        load.run(lambda load=load, way=way, topic=topic: asyncio.run(_run_aiokafka(load, cluster, way, topic)))
    return made


async def _run_aiokafka(load: Load, cluster: GuardedCluster, way: str, topic: str) -> None:
    group = {"group_id": f"aiokafka-{topic}", "auto_offset_reset": "earliest"}

    async def write(producer: AIOKafkaProducer) -> None:
        while not load.stops_writing.is_set():
            await producer.send_and_wait(topic, b"%d" % load.written)
            load.written += 1
            await asyncio.sleep(PAUSE_S)
        load.has_written.set()

    producer = AIOKafkaProducer(enable_idempotence=True, **cluster.aiokafka(way))
    consumer = AIOKafkaConsumer(topic, **group, **cluster.aiokafka(way))
    try:
        await producer.start()
        await consumer.start()
        writing = asyncio.create_task(write(producer))
        while not load.stops_reading.is_set():
            found = await consumer.getmany(timeout_ms=200)
            load.read[0].update((each.offset, each.value) for records in found.values() for each in records)
        await asyncio.wait_for(writing, STOP_S)
    finally:
        for client in (consumer, producer):
            with contextlib.suppress(TimeoutError):  # one whose cluster has gone waits for it, and would go on for ever
                await asyncio.wait_for(client.stop(), STOP_S)


def of_kcat(cluster: GuardedCluster, topics: dict[str, str]) -> dict[str, Load]:
    """kcat writes what comes from a pipe, and reads in a group; ``kcat-WAY.stderr`` has its messages."""
    made = {}
    for way, topic in topics.items():
        options = [word for name, value in cluster.librdkafka(way).items() for word in ("-X", f"{name}={value}")]
        made[way] = load = Load(way, ("kcat",))
        said = cluster.directory / f"kcat-{way}.stderr"
        load.run(lambda load=load, options=options, topic=topic, said=said: _write_by_kcat(load, options, topic, said))
        load.run(lambda load=load, options=options, topic=topic, said=said: _read_by_kcat(load, options, topic, said))
    return made


def _write_by_kcat(load: Load, options: list[str], topic: str, said: Path) -> None:
    command = ["kcat", "-P", "-t", topic, "-X", "enable.idempotence=true", "-X", "linger.ms=0", *options]
    with said.open("ab") as stderr:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=stderr)
    assert process.stdin is not None
    pipe = process.stdin

    def send(value: bytes) -> None:
        pipe.write(value + b"\n")
        pipe.flush()

    def finish() -> None:
        pipe.close()
        assert process.wait(WAIT_S) == 0

    try:
        load.write(send, finish)
    finally:
        _kill(process)


def _read_by_kcat(load: Load, options: list[str], topic: str, said: Path) -> None:
    command = [
        "kcat",
        "-G",
        f"kcat-{topic}",
        "-u",
        "-f",
        "%o %s\n",
        *options,
        "-X",
        "auto.offset.reset=earliest",
        topic,
    ]
    with said.open("ab") as stderr:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr)
    load.run(lambda: _end_when_read(load, process))
    assert process.stdout is not None
    with process.stdout:
        for line in process.stdout:
            offset, _, value = line.rstrip(b"\n").partition(b" ")
            load.read[0][int(offset)] = value
    assert load.stops_reading.is_set(), "kcat ended"
    process.wait()


def _end_when_read(load: Load, process: subprocess.Popen[bytes]) -> None:
    load.stops_reading.wait()
    _kill(process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.kill()
        process.wait()
    if process.stdin is not None:
        with suppress(BrokenPipeError):
            process.stdin.close()


class JavaClients:
    """Java's producers and consumers, for all ways in one process; see ``JavaClients.java``.

    Args:
        cluster: the cluster.
        tools: Kafka's.
        mode: of the program.
        topics: by way.
        is_wrong: True for clients that must be refused.
    """

    def __init__(
        self, cluster: GuardedCluster, tools: KafkaTools, mode: str, topics: dict[str, str], *, is_wrong: bool = False
    ) -> None:
        self._messages = cluster.directory / "java-clients.stderr"
        words = []
        for way, topic in topics.items():
            path = cluster.directory / f"java-{way}.properties"
            path.write_text(cluster.java(way, is_wrong=is_wrong))
            words += [way, str(path), topic]
        allowed = tools.with_options(f"{ALLOWED_URLS}{cluster.provider.url}/token")
        self._process = allowed.start(str(JAVA_PROGRAM), mode, *words, messages=self._messages)

    def lines(self) -> Iterator[list[str]]:
        """What it says: a way, a kind of line, and its words."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            yield line.rstrip("\n").split("\t", 3)

    def stop_writing(self) -> None:
        """Let all producers send what they have, and end."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def close(self) -> None:
        """End the process."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with suppress(BrokenPipeError):
                pipe.close()


def of_java(cluster: GuardedCluster, topics: dict[str, str], *, tools: KafkaTools) -> dict[str, Load]:
    """Kafka's own clients, of all ways in one process."""
    clients = JavaClients(cluster, tools, "load", topics)
    made = {way: Load(way, ("java",)) for way in topics}

    def listen() -> None:
        for way, kind, *words in clients.lines():
            load = made[way]
            if kind == "read":
                load.read[0][int(words[0])] = words[1].encode()
            elif kind == "written":
                load.written = int(words[0])
                load.has_written.set()
            else:
                load.failures.append(words[0])

    def end() -> None:
        for load in made.values():
            load.stops_writing.wait()
        clients.stop_writing()
        for load in made.values():
            load.stops_reading.wait()
        clients.close()

    first = next(iter(made.values()))
    first.run(listen)
    first.run(end)
    return made
