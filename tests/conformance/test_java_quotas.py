"""Throttle times against Kafka's own rates and token buckets."""

import subprocess
from pathlib import Path
from random import Random

import pytest

from esp.quotas.rate import Rate, Windows
from esp.quotas.token_bucket import TokenBucket
from esp.testing.kafka_tools import KafkaTools
from esp.testing.pytest_plugin import skip_or_fail

pytestmark = pytest.mark.kafka

PROGRAM = Path(__file__).with_name("JavaQuotas.java")
BEGINS_MS = 1_000_000_000


def ask_java(tools: KafkaTools, questions: list[str]) -> list[int]:
    command = ["java", "-cp", f"{tools.library_dir}/*", str(PROGRAM)]
    done = subprocess.run(command, input="\n".join(questions) + "\n", capture_output=True, text=True, timeout=120)
    if done.returncode != 0 and "jdk.compiler" in done.stderr:
        skip_or_fail("a JDK is needed to compile JavaQuotas.java")
    assert done.returncode == 0, done.stderr
    return [int(line) for line in done.stdout.split()]


def random_times(rng: Random, windows: Windows) -> list[int]:
    """Times that crowd, lie some windows apart, and lie further apart than all windows."""
    now_ms, times = BEGINS_MS, []
    for _ in range(rng.randint(1, 60)):
        times.append(now_ms)
        now_ms += rng.choice(
            [0, 1, rng.randint(0, windows.size_ms), windows.size_ms, rng.randint(0, windows.total_ms * 2)]
        )
    return times


def test_throttle_times_are_kafkas_to_the_millisecond(kafka_tools: KafkaTools) -> None:
    rng = Random(13)
    questions: list[str] = []
    ours: list[int] = []
    for _ in range(1_500):
        windows = Windows(rng.randint(1, 12), rng.choice([10, 1000, 2000]))
        limit = rng.choice([0.5, 1.0, 7.0, 100_000.0, 1234.5])
        times = random_times(rng, windows)
        is_rate = rng.random() < 0.7
        questions.append(f"{'rate' if is_rate else 'bucket'} {windows.number} {windows.size_ms} {limit}")
        rate, bucket = Rate(windows, times[0]), TokenBucket(windows, times[0])
        for now_ms in times:
            amount = round(limit * windows.total_ms / 1000 * rng.choice([0, 0.01, 0.1, 0.3, 1.5]), 3)
            questions.append(f"{amount} {now_ms}")
            if is_rate:
                rate.record(amount, now_ms)
                ours.append(rate.throttle_ms(limit, now_ms))
            else:
                bucket.take(amount, limit, now_ms)
                ours.append(bucket.throttle_ms(limit, now_ms))
    theirs = ask_java(kafka_tools, questions)
    assert len(ours) == len(theirs) > 10_000
    assert sum(time > 0 for time in theirs) > 1_000
    different = [(mine, their) for mine, their in zip(ours, theirs, strict=True) if abs(mine - their) > 1]
    assert not different, different[:10]
    assert sum(mine != their for mine, their in zip(ours, theirs, strict=True)) < len(ours) / 1000, "rounding alone"
