"""Hostile clients against a running node, by seed: what they send is spoilt, endless, huge, slow, or too much, and one client is honest.

    python -m tests.integration.fuzz --minutes 30 [--seed N] [--secure | --kafka]

The node must stay up and go on serving, its memory must stay below a bound, and so must what the honest client's requests take of the
node. The attackers take much of the machine too, for which the node cannot be blamed: so a second node, which nobody attacks, serves an
honest client of its own in the same time, and the first one's requests may take twice as long as those. Kafka can be attacked in the same
way, to compare: of it no more is asked than that it lives. With ``--secure`` the nodes speak TLS and ask for log-ins, and the attackers are
strangers and users without rights.
"""

import argparse
import logging
import os
import random
import resource
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from esp.records.builder import NewRecord, build_batch
from esp.testing.node_process import NodeProcess
from esp.testing.real_kafka import RealKafka
from tests.integration import messages
from tests.integration.fuzz_grounds import Ground, KafkaGround, OpenGround, SecureGround
from tests.integration.fuzz_report import LOG_MAX_BYTES_PER_S, MEMORY_MAX_BYTES, MIB, Descriptors, Phase, Report
from tests.integration.honest_client import HonestClient, Latency, waits_are_told
from tests.integration.hostile_clients import Attacker, bombs

_LOGGER: Final = logging.getLogger(__name__)

ATTACKERS: Final = 4
ATTACKERS_NICE: Final = 10
"""Attackers sit on machines of their own; the processor that they use here must not be what the honest miss."""

LATENCY_MAX_MS: Final = 12.0
"""A bound for the 99th percentile of what honest requests take of the node under attack, on a slow and busy machine too: it is 0.5 to 2 ms
on two processors, half a millisecond when nobody attacks."""

TIMES_MAX: Final = 2.0
"""How many times as long honest requests may take under attack, at the 99th percentile, as those of a node that nobody attacks."""

JUDGED_REQUESTS_MIN: Final = 1_000
"""The fewest requests of a phase whose latencies are judged: the 99th percentile of fewer is what happened once or twice."""

PREPARED: Final = b"prepared for requests of every kind"
"""What a node logs when it has made what the first request of a kind would make: that is done once, and is no attack's doing."""

PREPARED_WITHIN_S: Final = 120.0
KAFKA_WARM_UP_S: Final = 20.0

CALM_S: Final = 5.0
CLOSED_WITHIN_S: Final = 60.0
"""After the attacks: idle connections are ended within 7.5 s, those that somebody has let go of at once."""

ALONE_SHARE: Final = 0.5
"""The share of the time in which one kind of attack comes after the other; in the rest all come at once."""


def run(ground: Ground, minutes: float, seed: int, *, times_max: float = TIMES_MAX) -> Report:
    """Attack a node for some time and report."""
    report = Report(seed)
    began = time.monotonic()
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(8192, resource.getrlimit(resource.RLIMIT_NOFILE)[1]),) * 2)
    bombs()
    with ground.make("node") as node, ground.make("twin") as twin:
        for each in (node, twin):
            with ground.door.open(each.port) as wire:
                wire.call(messages.metadata("honest", "bombs", create=True))
                ground.fill(wire)
            wait_until_prepared(each, ground)
        honest, control = (HonestClient(ground.door, each.port, each.pid) for each in (node, twin))
        report.phases.append(Phase("before the attack", time.monotonic()))
        look_at(node, report)
        time.sleep(CALM_S)  # the calm before the attack is what it is compared with
        logged_before = node.stderr_path.stat().st_size
        os.nice(ATTACKERS_NICE)
        attackers = [ground.attacker(node, random.Random(seed * ATTACKERS + number)) for number in range(ATTACKERS)]
        kinds = attackers[0].KINDS
        alone_s = minutes * 60 * ALONE_SHARE / len(kinds)
        for name in kinds:
            attack(node, report, attackers, f"{name}, alone", {name: 1}, alone_s)
        attack(node, report, attackers, "all at once", kinds, minutes * 60 * (1 - ALONE_SHARE))
        for attacker in attackers:
            for name, tally in attacker.tallies.items():
                total = report.tallies[name]
                total.attacks += tally.attacks
                total.connections += tally.connections
                total.requests += tally.requests
        try:
            latencies, unattacked = honest.end(), control.end()
        except RuntimeError as error:
            report.failures.append(f"an honest client failed: {error}")
        else:
            for latency in latencies:
                phase_of(latency, report).latencies.append(latency)
            for latency in unattacked:
                phase_of(latency, report).control.append(latency)
        report.log_bytes = node.stderr_path.stat().st_size - logged_before
        report.failures += judge(node, report, times_max, ground)
        if isinstance(node, RealKafka):
            node.kill()  # an orderly stop may take it minutes after this
    report.seconds = time.monotonic() - began
    return report


def phase_of(latency: Latency, report: Report) -> Phase:
    """The phase that a request began in."""
    begun = [phase for phase in report.phases if phase.begun_s <= latency.begun_s]
    return begun[-1] if begun else report.phases[0]


def attack(
    node: NodeProcess,
    report: Report,
    attackers: Sequence[Attacker],
    name: str,
    kinds: Mapping[str, int],
    seconds: float,
) -> None:
    """One phase of a run: all attackers, in these kinds, for some time."""
    if not node.is_running:
        return
    report.phases.append(Phase(name, time.monotonic()))
    end = time.monotonic() + seconds
    threads = [threading.Thread(target=attacker.run_until, args=(end, kinds)) for attacker in attackers]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        threads[0].join(0.2)
        if node.is_running:
            look_at(node, report)
    for thread in threads:
        thread.join()


def look_at(node: NodeProcess, report: Report) -> None:
    """Write down what the node has taken."""
    with suppress(FileNotFoundError):  # it has just ended
        report.memory.append(node.own_memory_bytes())
        report.descriptors.append(Descriptors.of(node.pid))


def wait_until_prepared(node: NodeProcess, ground: Ground) -> None:
    """Wait for the end of what a node does on its own after its start."""
    if isinstance(node, RealKafka):
        wait_until_warm(node, ground)
        return
    deadline = time.monotonic() + PREPARED_WITHIN_S
    while PREPARED not in node.stderr_path.read_bytes():
        assert node.is_running, node.output
        assert time.monotonic() < deadline, f"the node is not prepared\n{node.output}"
        time.sleep(0.1)


def wait_until_warm(kafka: RealKafka, ground: Ground) -> None:
    """Write until the new topics have leaders, and the virtual machine has compiled what serves them."""
    batch = build_batch([NewRecord(b"x")], base_offset=0, leader_epoch=-1, timestamp_ms=int(time.time() * 1000))
    deadline = time.monotonic() + KAFKA_WARM_UP_S
    with ground.door.open(kafka.port) as wire:
        while time.monotonic() < deadline:
            for topic in ("honest", "bombs"):
                wire.call(messages.produce(topic, batch))


def judge(node: NodeProcess, report: Report, times_max: float, ground: Ground) -> Iterator[str]:
    """All that must not be."""
    if not node.is_running:
        report.crashes += 1
        yield f"the node ended:\n{node.output[-5000:]}"
        return
    if isinstance(node, RealKafka):
        return
    if max(report.memory) > MEMORY_MAX_BYTES:
        yield f"the node took {max(report.memory) / MIB:.0f} MiB"
    attacked_s = time.monotonic() - report.phases[1].begun_s if len(report.phases) > 1 else 0.0
    if report.log_bytes > LOG_MAX_BYTES_PER_S * max(attacked_s, 10.0):
        yield f"the node logged {report.log_bytes // 1024} KiB in {attacked_s:.0f} s"
    for phase in report.phases:
        if min(len(phase.latencies), len(phase.control)) < JUDGED_REQUESTS_MIN:
            continue
        if waits_are_told() and phase.of_node_p99_ms > LATENCY_MAX_MS:
            yield f"{phase.name}: honest requests took {phase.of_node_p99_ms:.1f} ms of the node at the 99th percentile"
    for what, times in (
        ("in all", report.under_attack.times_p99),
        ("of the node", report.under_attack.times_of_node_p99),
    ):
        if times > times_max:
            yield f"honest requests took {times:.1f} times as long {what} as those of a node that nobody attacks"
    with ground.door.open(node.port, 30) as wire:
        if not wire.call(messages.metadata()).cluster_id:
            yield "the node does not answer"
    deadline = time.monotonic() + CLOSED_WITHIN_S
    while Descriptors.of(node.pid).sockets >= report.descriptors[0].sockets and time.monotonic() < deadline:
        time.sleep(0.1)
    look_at(node, report)
    if report.descriptors[-1].sockets >= report.descriptors[0].sockets:  # of which one was the honest client's
        yield f"{report.descriptors[-1].sockets} sockets are open after the attacks"


def main() -> int:
    """Run from the command line; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="fuzz", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=30.0, help="how long (default: 30)")
    parser.add_argument("--seed", type=int, default=None, help="of the attacks (default: a new one)")
    parser.add_argument(
        "--times",
        type=float,
        default=TIMES_MAX,
        help="how many times as long honest requests may take as those of a node that nobody attacks (default: %(default)s)",
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--kafka", action="store_true", help="attack Kafka instead, for a comparison")
    which.add_argument("--secure", action="store_true", help="attack a node that speaks TLS and asks for log-ins")
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1_000_000)
    logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(asctime)s %(message)s")
    with tempfile.TemporaryDirectory(prefix="esp-fuzz-") as directory:
        _LOGGER.info("seed %d", seed)
        kind = KafkaGround if options.kafka else SecureGround if options.secure else OpenGround
        report = run(kind(Path(directory)), options.minutes, seed, times_max=options.times)
    _LOGGER.info("%s", report)
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
