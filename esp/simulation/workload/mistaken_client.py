"""A client that is mistaken: it sends requests that brokers and controllers must refuse, to any of them."""

import asyncio
from collections.abc import Callable, Collection, Sequence
from random import Random
from typing import Final

from esp.controller.image import ClusterImage
from esp.model.ids import SHARE_STATES_TOPIC
from esp.ports.network import Address
from esp.protocol.registry import SERVED, ListenerKind
from esp.simulation.workload.cluster_client import ClusterClient
from esp.simulation.workload.connection import NoAnswerError
from esp.simulation.workload.history import History
from esp.simulation.workload.mistaken_requests import MISTAKES
from esp.simulation.workload.survey_requests import SHARE_APIS, Scene, build

PAUSE_S: Final = (0.1, 1.0)
_TIMEOUT_S: Final = 5.0


class MistakenClient:
    """Sends one mistake after another. That nothing comes of them is for the checkers to see: its records would be none of the history's.

    Args:
        client: its connections.
        rng: its own stream of randomness.
        history: counts what was asked.
        image: the newest committed metadata.
        controllers: where controllers listen.
        changing: the topics whose policy clients change. The client does not ask about them: a record without a key is no mistake where
            the leader takes the topic for one that is not compacted.
    """

    def __init__(
        self,
        client: ClusterClient,
        rng: Random,
        history: History,
        image: Callable[[], ClusterImage],
        controllers: Sequence[Address],
        changing: Collection[str] = (),
    ) -> None:
        self.is_stopping = False
        self._client = client
        self._rng = rng
        self._history = history
        self._image = image
        self._controllers = tuple(controllers)
        self._changing = changing

    async def run(self) -> None:
        """Ask until told to stop."""
        while not self.is_stopping:
            await asyncio.sleep(self._rng.uniform(*PAUSE_S))
            try:
                await self._ask()
            except NoAnswerError as error:
                self._history.on_no_answer(self._client.name, str(error))

    async def _ask(self) -> None:
        image = self._image()
        topics = [
            topic
            for name, topic in image.topics_by_name.items()
            if not name.startswith("__") and name not in self._changing
        ]
        if not topics:
            return
        has_shares = SHARE_STATES_TOPIC in image.topics_by_name
        mistake = self._rng.choice([one for one in MISTAKES if has_shares or one.key not in SHARE_APIS])
        version = self._rng.choice(mistake.versions)
        scene = Scene(self._rng, image, self._rng.choice(topics), version, ())
        if mistake.listener is ListenerKind.CONTROLLER:
            connection = await self._client.connect(self._rng.choice(self._controllers))
        else:
            connection = await self._client.any_broker()
        request = build(mistake.key, version, mistake.content(scene))
        await connection.call(mistake.key, version, request, _TIMEOUT_S)
        self._history.on_done(self._client.name, "mistakes made", f"{SERVED[mistake.key].name} {version}")
