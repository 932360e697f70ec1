"""A loss of committed records, which only more faults than are promised can bring about, must be reported to the operator.

The leader that begins without them is the first that can know where its log ends; it must say so in its log (ELECT-4). A loss that is not
reported is worse than the loss.
"""

import contextlib
import logging
from collections.abc import Iterator
from typing import Final

from esp.model.ids import TopicPartition
from esp.simulation.checkers.violation import ViolationError

TELLS: Final = "esp.broker.replication.roles"
"""The logger that says it."""


class LossesTold(logging.Handler):
    """Hears what leaders say when they begin, and is told when one of them lacks something."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.losses = 0
        """Leaders that lacked something and said so."""
        self._lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """See :class:`logging.Handler`."""
        self._lines.append(record.getMessage())

    def on_loss(self, partition: TopicPartition, leader_epoch: int, who: str) -> None:
        """A replica has just begun to lead a partition in an epoch, and lacks committed records.

        Raises:
            ViolationError: INV-LOSS-TOLD.
        """
        told = any(line.startswith(f"{partition} ") and f"epoch {leader_epoch} " in line for line in self._lines)
        if not told:
            raise ViolationError(
                "INV-LOSS-TOLD", who, f"begins epoch {leader_epoch} without committed records, silently"
            )
        self.losses += 1

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Listen until the block ends."""
        logger = logging.getLogger(TELLS)
        level = logger.level
        logger.setLevel(logging.WARNING)
        logger.addHandler(self)
        try:
            yield
        finally:
            logger.removeHandler(self)
            logger.setLevel(level)
