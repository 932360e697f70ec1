"""Who throttles replication sets rates and lists as Kafka's tool does, and leaves nothing behind but what shall stay."""

import asyncio
from random import Random
from types import SimpleNamespace

from esp.model.errors import ErrorCode
from esp.simulation.workload import admin_requests
from esp.simulation.workload.connection import NoAnswerError
from esp.simulation.workload.history import History
from esp.simulation.workload.throttler import IN_DOUBT_S, KEPT_RATES, RATES, REPLICAS, ReplicationThrottler
from tests.unit.controller.samples import Cluster


class Connection:
    """Keeps what is asked for, and answers what is not among the ``silent`` requests."""

    def __init__(self, silent=()):
        self.silent = silent
        self.count = 0
        self.rates = {}
        self.lists = {}

    async def call(self, _key, _version, request, _timeout_s):
        self.count += 1
        known = self.rates if request.resources[0].resource_type == admin_requests.BROKER else self.lists
        for resource in request.resources:
            for config in resource.configs:
                known[config.name] = config.value if config.config_operation == 0 else None
        if self.count in self.silent:
            raise NoAnswerError("silence")
        return SimpleNamespace(responses=[SimpleNamespace(error_code=ErrorCode.none)])


def throttler(connection, seed):
    cluster = Cluster(3)
    cluster.create_partition(1, 2, 3)

    async def any_broker():
        return connection

    client = SimpleNamespace(name="throttler", any_broker=any_broker)
    history = History(lambda _who, _what: None)
    return ReplicationThrottler(client, Random(seed), history, lambda: cluster.image), history


def test_throttles_are_set_and_removed_and_lists_name_replicas():
    connection = Connection()
    subject, history = throttler(connection, 1)
    seen = []

    async def act():
        for _ in range(40):
            await subject._try(subject._draw_rates(), subject._draw_lists)
            seen.append((*(connection.rates[name] for name in RATES), *(connection.lists[name] for name in REPLICAS)))

    asyncio.run(act())
    assert {"throttles set", "throttles removed"} <= history.done.keys()
    assert (None,) * 4 in seen
    assert {one[2] for one in seen} > {None, "*"}
    assert any("0" in one[:2] for one in seen)


def test_in_the_end_either_nothing_stays_or_a_rate_that_lets_everything_end():
    left = set()
    for seed in range(8):
        connection = Connection()
        subject, _history = throttler(connection, seed)
        subject.is_stopping = True
        subject._rng = SimpleNamespace(random=Random(seed).random)
        asyncio.run(_run_fast(subject))
        left.add(tuple(connection.rates.values()) + tuple(connection.lists.values()))
    assert left == {(None,) * 4, (str(KEPT_RATES[0]),) * 2 + ("*",) * 2}


def test_what_was_not_answered_is_outlived():
    connection = Connection(silent=(1,))
    subject, _history = throttler(connection, 1)
    slept = []

    async def act():
        await subject._try(subject._draw_rates(), subject._draw_lists)
        assert subject._doubtful_until_s > asyncio.get_running_loop().time() + IN_DOUBT_S - 1
        slept.append(await _run_fast(subject))

    subject.is_stopping = True
    asyncio.run(act())
    assert slept[0] >= IN_DOUBT_S - 1


async def _run_fast(subject):
    """Run it to its end with a clock that goes on whenever somebody sleeps; returns how far it went."""
    loop = asyncio.get_running_loop()
    start_s = now_s = loop.time()

    async def sleep(seconds):
        nonlocal now_s
        now_s += seconds

    real_sleep, real_time = asyncio.sleep, loop.time
    asyncio.sleep, loop.time = sleep, lambda: now_s
    try:
        await subject.run()
    finally:
        asyncio.sleep, loop.time = real_sleep, real_time
    return now_s - start_s
