"""Nodes of a cluster that has share groups."""

from types import MappingProxyType
from typing import Final

from esp.controller.bootstrap import FIRST_LEVELS
from esp.controller.features import SUPPORTED_FEATURES
from esp.controller.image import FeatureRange
from esp.model.features import SHARE_VERSION
from tests.unit.broker.scenarios import played
from tests.unit.broker.simulated_node import SimulatedNode
from tests.unit.broker.transaction_conversation import set_level

WITHOUT_SHARE_GROUPS: Final = MappingProxyType({**SUPPORTED_FEATURES, SHARE_VERSION: FeatureRange(0, 0)})
"""The levels that an earlier release supports."""


def with_share_groups(level=FIRST_LEVELS[SHARE_VERSION], **settings):
    """A test with a simulated node whose cluster has share groups at this level, and a client of it.

    At level 0 the cluster was begun by an earlier release.
    """

    async def play(loop, scenario):
        node = SimulatedNode(loop, features=SUPPORTED_FEATURES if level else WITHOUT_SHARE_GROUPS, **settings)
        await node.start()
        if not level:
            node.features = SUPPORTED_FEATURES
            await node.restart()
        elif level > FIRST_LEVELS[SHARE_VERSION]:
            await set_level(node, level, SHARE_VERSION)
        await scenario((node, await node.client()))

    return played(play)
