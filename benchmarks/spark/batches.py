"""Record batches to columns and back, without a broker and without Spark."""

from typing import Final

from benchmarks.arrow import RECORDS, SHAPES, measure_shape
from benchmarks.results import ESP
from benchmarks.spark.metrics import DECODE, ENCODE
from benchmarks.spark.session import Session
from benchmarks.stage import Stage

_TRIES: Final = 5


def measure_batches(stage: Stage, _session: Session) -> None:
    """Measure both in each round, at their best of some tries."""
    for number in stage.rounds():
        decoded, _, encoded = measure_shape(SHAPES[0], RECORDS, _TRIES)
        stage.take(ESP, {DECODE: 1 / decoded, ENCODE: 1 / encoded}, number)
