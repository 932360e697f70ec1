"""Who changes minimums never goes below those of the profile, and says what may still come into force."""

import asyncio
from random import Random
from types import SimpleNamespace

from esp.controller.image import MIN_INSYNC_REPLICAS
from esp.model.errors import ErrorCode
from esp.simulation.nodes_tier.profile import TopicProfile
from esp.simulation.workload.connection import NoAnswerError
from esp.simulation.workload.history import History
from esp.simulation.workload.minimum_setter import MinimumSetter
from tests.unit.controller.samples import Cluster

TOPICS = (
    TopicProfile("own", 1, 3, 2, {MIN_INSYNC_REPLICAS: "2"}),
    TopicProfile("by-default", 1, 3, 1, {}),
)


class Connection:
    """Keeps what is asked for; silent if it is told to."""

    def __init__(self):
        self.is_silent = False
        self.asked = []

    async def call(self, _key, _version, request, _timeout_s):
        (resource,) = request.resources
        self.asked.append((resource.resource_name, int(resource.configs[0].value)))
        if self.is_silent:
            raise NoAnswerError("silence")
        return SimpleNamespace(responses=[SimpleNamespace(error_code=ErrorCode.none)])


def setter(connection):
    cluster = Cluster(3)
    cluster.create_partition(1, 2, 3, topic="own", **{MIN_INSYNC_REPLICAS: "2"})
    cluster.create_partition(1, 2, 3, topic="by-default")

    async def any_broker():
        return connection

    client = SimpleNamespace(name="minimum setter", any_broker=any_broker)
    history = History(lambda _who, _what: None)
    return MinimumSetter(
        client, Random(1), history, TOPICS, default=1, by_default=True, image=lambda: cluster.image
    ), history


def test_minimums_lie_between_that_of_the_profile_and_the_number_of_copies():
    connection = Connection()
    subject, history = setter(connection)

    async def act():
        for _ in range(60):
            await subject._change()
        return subject.doubtful_minimums

    assert asyncio.run(act()) == {}
    assert history.done["minimum changed"] == 60
    assert set(connection.asked) == {("own", 2), ("own", 3), ("", 1), ("", 2), ("", 3)}


def test_what_was_not_answered_is_in_doubt_for_the_topics_that_it_counts_for():
    connection = Connection()
    subject, _ = setter(connection)

    async def act():
        connection.is_silent = True
        for _ in range(30):
            try:
                await subject._change()
            except NoAnswerError:
                continue
        connection.is_silent = False
        await subject._change()
        return subject.doubtful_minimums

    assert asyncio.run(act()) == {"own": 3, "by-default": 3}
