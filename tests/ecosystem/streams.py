"""Kafka Streams: the word count of its examples under exactly_once_v2, in two instances that are killed in turn.

Afterwards both instances lose their state stores and restore them from the changelog, which is compacted by then, before more lines come.
At last an instance asks for the group protocol of Streams (``group.protocol=streams``, KIP-1071), which ESP does not serve: the client
ends, and says why.
"""

import contextlib
import itertools
import logging
import random
import shutil
import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from esp.testing.cluster import Cluster
from tests.ecosystem.clients import Committed, CommittedReader, Load, create_topic
from tests.ecosystem.files import compacted_logs
from tests.ecosystem.killer import Killer, ProgramVictim
from tests.ecosystem.oracles.word_counts import judge_word_counts, words_of
from tests.ecosystem.program import Program, write_properties
from tests.ecosystem.stage import KILLS_GRACE_S, Outcome, Stage
from tests.ecosystem.waiting import TooLateError, wait_for

_LOGGER: Final = logging.getLogger(__name__)

INPUT: Final = "streams-plaintext-input"
OUTPUT: Final = "streams-wordcount-output"
CHANGELOG_SUFFIX: Final = "-changelog"
MAIN_CLASS: Final = "org.apache.kafka.streams.examples.wordcount.WordCountDemo"
INSTANCES: Final = 2
PARTITIONS: Final = 4
LINES_PER_S: Final = 100
KILL_EVERY_S: Final = 10.0
LINES_AFTER_RESTORE: Final = 500
FIRST_COUNT_TIMEOUT_S: Final = 120
COMPACTION_TIMEOUT_S: Final = 120
CATCH_UP_TIMEOUT_S: Final = 240
REFUSAL: Final = "The cluster does not support the STREAMS group protocol"
_VOCABULARY: Final = 150
_WORDS_A_LINE: Final = 5


def run(stage: Stage) -> Iterator[Outcome]:
    """Run the word count and judge its counts, before and after its stores are lost."""
    bootstrap = stage.cluster.bootstrap
    create_topic(bootstrap, INPUT, PARTITIONS, stage.replication_factor)
    create_topic(bootstrap, OUTPUT, PARTITIONS, stage.replication_factor)
    stores = [stage.directory / f"store-{number}" for number in range(1, INSTANCES + 1)]
    instances = [_instance(stage, store) for store in stores]
    lines = _lines(random.Random(1))
    written: list[str] = []
    with CommittedReader(bootstrap, OUTPUT) as reader:
        for instance in instances:
            instance.start()
        with Load(bootstrap, INPUT, lines, LINES_PER_S) as load:
            wait_for(lambda: reader.has(bool), FIRST_COUNT_TIMEOUT_S, "the first count")
            victims = [ProgramVictim(instance) for instance in instances]
            with stage.node_kills() as nodes, Killer(victims, KILL_EVERY_S) as killer:
                wait_for(
                    lambda: nodes.has_killed(stage.node_kills_wanted) and killer.has_killed(stage.kills),
                    KILL_EVERY_S * stage.kills * 4 + KILLS_GRACE_S,
                    f"{stage.kills} kills",
                )
            kills = killer.kills + nodes.kills
        written += load.written
        _wait_for_counts(reader, written)
        outcome = _outcome("Streams: word count, exactly once", kills, written, reader.records)
        outcome.violations += stage.own_ends(instances)
        yield outcome

        wait_for(lambda: _is_compacted(stage.cluster), COMPACTION_TIMEOUT_S, "the changelog is compacted on each node")
        for instance in instances:
            instance.stop()
        assert any(any(store.rglob("rocksdb")) for store in stores), "the instances kept no state"
        for store in stores:
            shutil.rmtree(store)
        _LOGGER.info("the state stores are gone")
        for instance in instances:
            instance.start()
        with Load(bootstrap, INPUT, itertools.islice(lines, LINES_AFTER_RESTORE), LINES_PER_S) as load:
            wait_for(lambda: len(load.written) >= LINES_AFTER_RESTORE, 60, "more lines")
        written += load.written
        _wait_for_counts(reader, written)
        outcome = _outcome("Streams: stores restored", 0, written, reader.records)
        outcome.violations += stage.own_ends(instances)
        yield outcome
    if stage.product == "esp":
        yield _outcome_of_refusal(stage)


def _outcome_of_refusal(stage: Stage) -> Outcome:
    instance = _instance(stage, stage.directory / "store-refused", {"group.protocol": "streams"})
    instance.start()
    wait_for(lambda: REFUSAL in instance.stderr_path.read_text(), FIRST_COUNT_TIMEOUT_S, "the refusal")
    wait_for(lambda: "SHUTDOWN_CLIENT" in instance.stderr_path.read_text(), FIRST_COUNT_TIMEOUT_S, "the client's end")
    instance.kill()
    return Outcome("Streams: group.protocol=streams refused", 0, 0, [])


def _instance(stage: Stage, store: Path, more: Mapping[str, object] | None = None) -> Program:
    properties = {
        "bootstrap.servers": stage.cluster.bootstrap,
        "processing.guarantee": "exactly_once_v2",
        "state.dir": store,
        "statestore.cache.max.bytes": 0,
        "replication.factor": stage.replication_factor,
        "consumer.session.timeout.ms": 6000,
        "consumer.heartbeat.interval.ms": 1000,
        **(more or {}),
    }
    path = write_properties(stage.directory / f"{store.name}.properties", properties)
    return stage.program(MAIN_CLASS, [str(path)], f"streams-{store.name}")


def _lines(rng: random.Random) -> Iterator[str]:
    while True:
        yield " ".join(f"word{rng.randrange(_VOCABULARY)}" for _ in range(_WORDS_A_LINE))


def _is_compacted(cluster: Cluster) -> bool:
    return all(
        sum(partition.topic.endswith(CHANGELOG_SUFFIX) for partition in compacted_logs(node)) == PARTITIONS
        for node in cluster.nodes.values()
    )


def _wait_for_counts(reader: CommittedReader, written: Sequence[str]) -> None:
    """Wait for as many counts as there are words; if they do not come, the judgement says which are missing."""
    words = sum(len(words_of(line)) for line in written)
    _LOGGER.info("%d words are written, %d counted so far", words, len(reader.records))
    with contextlib.suppress(TooLateError):
        wait_for(lambda: reader.has(lambda records: len(records) >= words), CATCH_UP_TIMEOUT_S, f"{words} counts")


def _outcome(program: str, kills: int, written: Sequence[str], records: Sequence[Committed]) -> Outcome:
    counts = [((record.key or b"").decode(), struct.unpack(">q", record.value)[0]) for record in records]
    return Outcome(program, kills, len(counts), judge_word_counts(written, counts))
