"""Transactions of one record: what each costs the broker, and how long its commit takes, at a rate that is the same for both brokers."""

from typing import Final

from benchmarks.batches import PARTITIONS
from benchmarks.client import create_topic
from benchmarks.cost import CostMeter
from benchmarks.results import percentile
from benchmarks.stage import Stage
from benchmarks.transactions.metrics import ONE_RECORD
from benchmarks.transactions.producers import OneRecordProducer, run_transactions

RATES: Final = {1: 100.0, 100: 200.0}
"""Transactions a second by the number of producers: less than either broker can do."""

TRANSACTIONS: Final = 10_000
"""The transactions of a round with many producers; with one producer it has a quarter of them."""

_TOPIC: Final = "one-record"


def measure_one_record(stage: Stage) -> None:
    """Measure both protocols, with one producer and with 100."""
    producers = {}
    for name, node in stage.nodes.items():
        create_topic(node.port, _TOPIC, PARTITIONS)
        for protocol, many in ONE_RECORD:
            producers[name, protocol, many] = [
                OneRecordProducer(node.port, f"v{protocol}-{many}-{number}", _TOPIC, number % PARTITIONS, protocol)
                for number in range(many)
            ]
    for number in stage.rounds():
        for (protocol, many), (cpu, p50, p99) in ONE_RECORD.items():
            count = stage.scaled(TRANSACTIONS if many > 1 else TRANSACTIONS / 4)
            for name, node in stage.in_turn(number):
                with CostMeter(node) as cost:
                    commits_s = run_transactions(producers[name, protocol, many], count, RATES[many])
                values = {
                    cpu: cost.all_s * 1e6 / count,
                    p50: percentile(commits_s, 0.5) * 1e3,
                    p99: percentile(commits_s, 0.99) * 1e3,
                }
                stage.take(name, values, number)
                rate = count / cost.elapsed_s
                if rate < 0.9 * RATES[many]:
                    stage.say(f"    {name} and this client did {rate:.0f} a second, not {RATES[many]:.0f}")
    for group in producers.values():
        for producer in group:
            producer.client.close()
