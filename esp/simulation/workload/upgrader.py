"""Upgrades a cluster while everything else goes on: its nodes one by one, then the level of a feature, which has no way back (KIP-584)."""

import asyncio
import datetime as dt
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Final

from kio.schema.update_features.v2.request import FeatureUpdateKey, UpdateFeaturesRequest
from kio.static.primitive import i8, i16, i32Timedelta

from esp.controller.feature_updates import UpgradeType
from esp.controller.features import SUPPORTED_FEATURES, find_unsupported
from esp.controller.image import ClusterImage
from esp.model.errors import ErrorCode
from esp.model.features import ELIGIBLE_LEADER_REPLICAS
from esp.protocol.registry import ApiKey
from esp.simulation.checkers.violation import ViolationError
from esp.simulation.nodes_tier.node import SimulatedNode
from esp.simulation.nodes_tier.upgrade_profile import NEW_LEVEL, OLDER_RELEASE, UpgradeProfile
from esp.simulation.nodes_tier.world import World
from esp.simulation.workload.cluster_client import ClusterClient
from esp.simulation.workload.connection import NoAnswerError
from esp.simulation.workload.history import History

VERSION: Final = 2
_LOOK_AGAIN_S: Final = 0.05
TIMEOUT_S: Final = 10.0
BACKOFF_S: Final = 1.0
EARLY_SHARE: Final = 0.4
"""After how many of the nodes it asks for the level, though others may be missing."""

LAST_TRIES: Final = 20
"""The tries at the end, when the cluster is whole."""


class Upgrader:
    """Gives the nodes another release, one after another, and raises the level.

    Args:
        client: its connections.
        world: the cluster whose nodes get another release.
        rng: its own stream of randomness.
        history: counts what was done.
        image: the newest committed metadata.
        profile: when it does what.
    """

    def __init__(
        self,
        client: ClusterClient,
        world: World,
        rng: Random,
        history: History,
        image: Callable[[], ClusterImage],
        profile: UpgradeProfile,
    ) -> None:
        self.is_stopping = False
        self._client = client
        self._world = world
        self._rng = rng
        self._history = history
        self._image = image
        self._profile = profile

    async def run(self) -> None:
        """Upgrade node after node, then the level; then see whether a node of the older release is kept out, until told to stop."""
        await asyncio.sleep(self._profile.begin_s)
        nodes = list(self._world.nodes.values())
        self._rng.shuffle(nodes)
        for node in nodes:
            await self._give(node, is_newer=True)
            if self._rng.random() < EARLY_SHARE:
                await self._update(NEW_LEVEL, UpgradeType.UPGRADE)
            if self._rng.random() < self._profile.goes_back_share and not self._is_raised:
                await self._give(node, is_newer=False)
                await self._update(NEW_LEVEL, UpgradeType.UPGRADE)
                await self._give(node, is_newer=True)
        while not self.is_stopping:
            if not self._is_raised:
                await self._update(NEW_LEVEL, UpgradeType.UPGRADE)
            elif self._rng.random() < 0.5:
                await self._update(NEW_LEVEL - 1, self._rng.choice(list(UpgradeType)))
            else:
                await self._give(self._rng.choice(nodes), is_newer=False)
            await asyncio.sleep(self._rng.expovariate(1 / max(1.0, self._profile.pause_s)))

    async def finish(self) -> None:
        """The cluster is whole: the level can be raised if no node is registered that does not support it, and only then."""
        for _ in range(LAST_TRIES):
            image = self._image()
            old = [
                node_id
                for nodes in (image.brokers, image.controllers)
                for node_id, registered in nodes.items()
                if any(find_unsupported({ELIGIBLE_LEADER_REPLICAS: NEW_LEVEL}, registered.features))
            ]
            code = await self._update(NEW_LEVEL, UpgradeType.UPGRADE)
            if code in (ErrorCode.none, ErrorCode.invalid_update_version):
                if (code is ErrorCode.none) == bool(old):
                    raise ViolationError(
                        "INV-FEATURES", "the cluster", f"of the older release are {old}, and the answer is {code.name}"
                    )
                return
            await asyncio.sleep(BACKOFF_S)
        raise ViolationError("INV-FEATURES", "the cluster", "the level of a feature can be neither raised nor refused")

    @property
    def _is_raised(self) -> bool:
        return self._image().features.get(ELIGIBLE_LEADER_REPLICAS, 0) == NEW_LEVEL

    async def _give(self, node: SimulatedNode, *, is_newer: bool) -> None:
        """Restart a node with another release; one that is down gets it with its next start."""
        if self.is_stopping:
            return
        await asyncio.sleep(self._rng.expovariate(1 / self._profile.pause_s))
        node.features = SUPPORTED_FEATURES if is_newer else OLDER_RELEASE
        self._history.on_done(
            self._client.name, f"node given the {'newer' if is_newer else 'older'} release", f"{node.node_id}"
        )
        if node.is_serving:
            restarting = self._world.spawn(self._world.restart(node, self._rng.uniform(0.05, 2)))
            while not (restarting.done() or self.is_stopping):  # a node that is left behind for good never comes up
                with suppress(TimeoutError):
                    async with asyncio.timeout(_LOOK_AGAIN_S):
                        await asyncio.shield(restarting)

    async def _update(self, level: int, upgrade_type: UpgradeType) -> ErrorCode | None:
        """Ask for a level; None if there is no answer."""
        update = FeatureUpdateKey(
            feature=ELIGIBLE_LEADER_REPLICAS, max_version_level=i16(level), upgrade_type=i8(upgrade_type)
        )
        request = UpdateFeaturesRequest(
            timeout=i32Timedelta.parse(dt.timedelta(seconds=TIMEOUT_S)), feature_updates=(update,), validate_only=False
        )
        try:
            connection = await self._client.any_broker()
            answer = await connection.call(ApiKey.UPDATE_FEATURES, VERSION, request, TIMEOUT_S)
        except NoAnswerError as error:
            self._history.on_no_answer(self._client.name, str(error))
            return None
        code = ErrorCode(answer.error_code)
        if code is not ErrorCode.none:
            self._history.on_refusal(self._client.name, code.name)
            return code
        if self._image().features.get(ELIGIBLE_LEADER_REPLICAS, 0) != level:
            raise ViolationError(
                "INV-FEATURES", self._client.name, f"is answered that the level is {level}: {self._image().features}"
            )
        self._history.on_done(self._client.name, "level of a feature raised", f"{level}")
        return code
