"""The mistaken client's choice of topics."""

import asyncio
from random import Random

from esp.simulation.workload.mistaken_client import MistakenClient
from tests.unit.controller.samples import Cluster


def test_topics_whose_policy_changes_are_not_asked_about():
    cluster = Cluster(3)
    cluster.create_partition(1, 2, 3)
    client = MistakenClient(None, Random(1), None, lambda: cluster.image, (), set(cluster.image.topics_by_name))
    asyncio.run(client._ask())  # without a client and a history: a question would fail
