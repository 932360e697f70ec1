"""Kafka's verifiable producer and consumer, side by side: what is acknowledged is consumed."""

import contextlib
from collections.abc import Iterator
from typing import Final

from tests.ecosystem.clients import create_topic
from tests.ecosystem.oracles.verifiable import events, judge_verifiable, places
from tests.ecosystem.stage import Outcome, Stage
from tests.ecosystem.waiting import TooLateError, wait_for

TOPIC: Final = "verifiable"
PARTITIONS: Final = 3
RECORDS: Final = 6000
RECORDS_UNDER_KILLS: Final = 30_000
RECORDS_PER_S: Final = 300
TIMEOUT_S: Final = 300


def run(stage: Stage) -> Iterator[Outcome]:
    """Run both programs to their ends."""
    create_topic(stage.cluster.bootstrap, TOPIC, PARTITIONS, stage.replication_factor)
    total = RECORDS_UNDER_KILLS if stage.kill_nodes else RECORDS
    common = ["--bootstrap-server", stage.cluster.bootstrap, "--topic", TOPIC]
    consumer = stage.tool(
        "verifiable-consumer",
        [*common, "--group-id", "verifiers", "--reset-policy", "earliest", "--verbose"],
        "verifiable-consumer",
    )
    producer = stage.tool(
        "verifiable-producer",
        [*common, "--max-messages", str(total), "--throughput", str(RECORDS_PER_S), "--acks", "-1"],
        "verifiable-producer",
    )

    def all_is_consumed() -> bool:
        acked = dict(places(events(producer.stdout_path.read_text()), "producer_send_success"))
        return acked.keys() <= dict(places(events(consumer.stdout_path.read_text()), "record_data")).keys()

    consumer.start()
    producer.start()
    with stage.node_kills() as nodes:
        wait_for(
            lambda: not producer.is_running and nodes.has_killed(stage.node_kills_wanted),
            TIMEOUT_S,
            "the producer's end",
        )
        with contextlib.suppress(TooLateError):
            wait_for(all_is_consumed, TIMEOUT_S, "all acknowledged records are consumed")
    consumer.stop()
    produced, consumed = producer.stdout_path.read_text(), consumer.stdout_path.read_text()
    violations = judge_verifiable(produced, consumed, total, nodes_killed=nodes.kills > 0)
    if producer.exit_status != 0:
        violations.append(f"the producer ended with status {producer.exit_status}")
    if not any(event.get("name") == "shutdown_complete" for event in events(consumed)):
        violations.append("the consumer did not shut down cleanly")
    read = len(places(events(consumed), "record_data"))
    yield Outcome("verifiable-producer, -consumer", nodes.kills, read, violations)
