"""Nodes of a cluster that has share groups."""

from esp.controller.bootstrap import FIRST_LEVELS
from esp.model.features import SHARE_VERSION
from tests.unit.broker.scenarios import played
from tests.unit.broker.simulated_node import SimulatedNode
from tests.unit.broker.transaction_conversation import set_level


def with_share_groups(level=1, **settings):
    """A test with a simulated node whose cluster has share groups at this level, and a client of it."""

    async def play(loop, scenario):
        node = SimulatedNode(loop, **settings)
        await node.start()
        if level != FIRST_LEVELS[SHARE_VERSION]:
            await set_level(node, level, SHARE_VERSION)
        await scenario((node, await node.client()))

    return played(play)
