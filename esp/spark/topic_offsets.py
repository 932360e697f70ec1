"""Offsets and partitions in JSON, as Spark's Kafka source has them: ``{"topic": {"0": 23, "1": -1}}``, ``{"topic": [0, 1]}``."""

import json
from collections.abc import Mapping
from typing import Any, Final

from esp.consumer.messages import EARLIEST, LATEST, Partition
from esp.options.errors import OptionError

_OFFSETS_EXAMPLE: Final = '{"topic": {"0": 23, "1": -2}}'
_PARTITIONS_EXAMPLE: Final = '{"topic": [0, 1]}'
_NUMBER_MOST: Final = 2**63 - 1
_DIGITS_MOST: Final = 10
"""The most digits of the number of a partition, which has 32 bits."""


def parse_offsets(name: str, text: str, least: int = EARLIEST) -> dict[Partition, int]:
    """Return offsets, or timestamps, by partition.

    Args:
        name: the option, for messages.
        text: its value.
        least: the smallest number that is allowed; -1 stands for the latest offset, -2 for the earliest.

    Raises:
        OptionError: the text is something else.
    """
    found: dict[Partition, int] = {}
    for topic, partitions in _parse(name, text, _OFFSETS_EXAMPLE).items():
        if not isinstance(partitions, dict):
            raise OptionError(name, text, f"topic {topic} has no partitions with numbers: write {_OFFSETS_EXAMPLE}")
        for key, number in partitions.items():
            if not (key.isascii() and key.isdecimal() and len(key) <= _DIGITS_MOST):
                raise OptionError(name, text, f"{key!r} of topic {topic} is no partition: write {_OFFSETS_EXAMPLE}")
            partition = Partition(topic, int(key))
            if type(number) is not int or not least <= number <= _NUMBER_MOST:
                allowed = (
                    f"0 or more, {LATEST} (latest) or {EARLIEST} (earliest)" if least < 0 else "milliseconds, 0 or more"
                )
                raise OptionError(name, text, f"{partition} has {number!r}: write {allowed}")
            found[partition] = number
    if not found:
        raise OptionError(name, text, f"it names no partition: write {_OFFSETS_EXAMPLE}")
    return found


def parse_partitions(name: str, text: str) -> list[Partition]:
    """Return partitions, in order.

    Raises:
        OptionError: the text is something else, or names no partition.
    """
    found: set[Partition] = set()
    for topic, numbers in _parse(name, text, _PARTITIONS_EXAMPLE).items():
        if not isinstance(numbers, list) or not all(type(number) is int and number >= 0 for number in numbers):
            raise OptionError(name, text, f"topic {topic} has no list of partitions: write {_PARTITIONS_EXAMPLE}")
        found.update(Partition(topic, number) for number in numbers)
    if not found:
        raise OptionError(name, text, f"it names no partition: write {_PARTITIONS_EXAMPLE}")
    return sorted(found)


def write_offsets(offsets: Mapping[Partition, int]) -> str:
    """The JSON of offsets, as Spark writes it."""
    topics: dict[str, dict[str, int]] = {}
    for partition, offset in sorted(offsets.items()):
        topics.setdefault(partition.topic, {})[str(partition.number)] = offset
    return json.dumps(topics, separators=(",", ":"))


def _parse(name: str, text: str, example: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise OptionError(name, text, f"it is not JSON: write {example}") from error
    if not isinstance(found, dict):
        raise OptionError(name, text, f"it is not an object of JSON: write {example}")
    return found
