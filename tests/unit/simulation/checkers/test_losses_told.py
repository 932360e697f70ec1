"""A leader that begins without committed records has to say so."""

import logging

import pytest

from esp.simulation.checkers.losses_told import TELLS, LossesTold
from esp.simulation.checkers.violation import ViolationError
from tests.unit.storage.helpers import PARTITION


def tell(line):
    logging.getLogger(TELLS).warning(line)


def test_loss_that_the_leader_told_is_counted():
    losses = LossesTold()
    with losses.watched():
        tell(f"{PARTITION} is led here from epoch 6 on, and more")
        losses.on_loss(PARTITION, 6, "node 2")
    assert losses.losses == 1


@pytest.mark.parametrize(
    "line", [None, f"{PARTITION} is led here from epoch 5 on", "other-0 is led here from epoch 6 on"]
)
def test_silent_loss_is_found(line):
    losses = LossesTold()
    with losses.watched():
        if line is not None:
            tell(line)
        with pytest.raises(ViolationError, match=r"^INV-LOSS-TOLD at node 2: "):
            losses.on_loss(PARTITION, 6, "node 2")


def test_nobody_listens_after_the_run():
    losses = LossesTold()
    with losses.watched():
        pass
    tell(f"{PARTITION} is led here from epoch 6 on")
    with pytest.raises(ViolationError):
        losses.on_loss(PARTITION, 6, "node 2")
