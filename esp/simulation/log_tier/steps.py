"""The lines of a log tier's trace: steps, ends of processes, and where the log is then."""

from collections.abc import Callable
from typing import Any

from esp.model.ids import TopicPartition
from esp.storage.log import Log


def line_of_step(partition: TopicPartition, step: Callable[[], Any], log: Log) -> str:
    """The line of a step that is about to be done."""
    return _line(partition, step.__name__.removeprefix("_").replace("_", " "), log)


def line_of_ending(partition: TopicPartition, log: Log, *, loses_power: bool) -> str:
    """The line of a process that ends."""
    return _line(partition, "  the power is lost" if loses_power else "  the process ends", log)


def _line(partition: TopicPartition, what: str, log: Log) -> str:
    return (
        f"{partition!s:12} {what:24} from {log.log_start_offset} to {log.log_end_offset}, "
        f"high watermark {log.high_watermark}, flushed to {log.recovery_point}"
    )
