"""Transactional ids as administrators see them."""

import pytest

from esp.model.errors import ErrorCode
from esp.schemas.transaction_records import TransactionStatus
from esp.transactions.requests import Producer
from esp.transactions.responses import DescribedTransaction
from tests.unit.transactions.world import P0, P1, START_MS, TIMEOUT_MS, World, record_of, value

S = TransactionStatus
IDS = {"idle": S.EMPTY, "open": S.ONGOING, "deciding": S.PREPARE_ABORT, "done": S.COMPLETE_COMMIT}


@pytest.fixture
def world():
    log = [
        record_of(value(status, (number, 0), (P0,) if status in (S.ONGOING, S.PREPARE_ABORT) else ()), name)
        for number, (name, status) in enumerate(IDS.items())
    ]
    return World(log=log, writes_markers=False)


def test_described_id_has_its_partitions():
    world = World(value(S.ONGOING, partitions=(P0, P1)))
    assert world.describe() == DescribedTransaction(
        ErrorCode.none, "Ongoing", TIMEOUT_MS, START_MS, Producer(7, 3), (P0, P1)
    )


def test_state_on_its_way_is_not_shown():
    world = World(is_stuck=True)
    world.init()
    assert world.describe().error is ErrorCode.transactional_id_not_found
    assert world.list() == []
    world.commit()
    assert world.describe().state == "Empty"


@pytest.mark.parametrize(
    ("filters", "names"),
    [
        ({}, list(IDS)),
        ({"states": ("Empty", "PrepareAbort")}, ["idle", "deciding"]),
        ({"states": ("Nothing",)}, []),
        ({"producer_ids": (1, 3, 99)}, ["open", "done"]),
        ({"duration_ms": 0}, list(IDS)),
        ({"duration_ms": 1000}, ["idle"]),
        ({"matches": lambda name: name.startswith("d")}, ["deciding", "done"]),
        ({"matches": lambda name: name.startswith("d"), "states": ("CompleteCommit",)}, ["done"]),
    ],
)
def test_filters(world, filters, names):
    world.pass_time(1000)
    assert world.list(**filters) == names


def test_the_oldest_transaction_is_the_one_that_began_first_and_is_not_completed():
    world = World(writes_markers=False)
    assert world.coordinator.oldest_start_us is None
    starts = {}
    for name in ("a", "b"):
        producer = world.init(transactional_id=name).producer
        starts[name] = world.now_us
        assert world.add(producer, P0, transactional_id=name) is not None
        world.pass_time(1000)
        if name == "a":
            first = producer
    assert world.coordinator.oldest_start_us == starts["a"]
    world.end(first, transactional_id="a")
    assert world.coordinator.oldest_start_us == starts["a"], "its marker is not written"
    world.write_markers(world.markers.pop())
    assert world.coordinator.oldest_start_us == starts["b"]
