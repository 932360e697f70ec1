"""A node's place for the enforcement of quotas: empty, and nothing of it loaded, while the cluster has no quota."""

import importlib
from collections.abc import Callable, Generator, Iterable, Mapping
from typing import TYPE_CHECKING, Final

from esp.broker.request import ClientContext
from esp.broker.tasks import Tasks
from esp.controller.image import ClusterDelta, ClusterImage
from esp.model.client_quotas import QuotaEntity
from esp.ports.clock import Clock
from esp.settings.broker import BrokerSettings

if TYPE_CHECKING:
    from esp.broker.quotas.enforcer import QuotaEnforcer
    from esp.broker.quotas.held_clients import HeldClient


class QuotaSwitch:
    """Has quotas enforced on some listeners while there are any."""

    def __init__(self) -> None:
        self.enforcer: QuotaEnforcer | None = None
        """Handles every request while there are quotas."""
        self._make: Callable[[], QuotaEnforcer] | None = None
        self._loaded: QuotaEnforcer | None = None

    @property
    def throttled(self) -> Mapping[tuple[str, QuotaEntity], tuple[int, int]]:
        """By key and entity of a quota: how often clients were throttled because of it, and the milliseconds in sum."""
        return self._loaded.uses.throttled if self._loaded is not None else {}

    def find_held(self) -> "Generator[None, None, list[HeldClient]]":
        """Return the clients that quotas hold at this moment, yielding after each slice."""
        return [] if self.enforcer is None else (yield from self.enforcer.find_held())

    def start(
        self,
        clock: Clock,
        settings: BrokerSettings,
        tasks: Tasks,
        clients: Callable[[], Iterable[ClientContext]],
    ) -> None:
        """Be ready for quotas.

        Args:
            clock: the node's.
            settings: the node's own: windows.
            tasks: those that handlers start.
            clients: returns the clients that are connected.
        """

        def make() -> "QuotaEnforcer":
            module = importlib.import_module("esp.broker.quotas.enforcer")
            made: QuotaEnforcer = module.QuotaEnforcer(clock, settings, tasks, clients)
            return made

        self._make = make

    def follow(self, image: ClusterImage, delta: ClusterDelta) -> None:
        """Follow the metadata log."""
        if not delta.has_other_quotas:
            return
        if self._loaded is None:
            if not image.client_quotas or self._make is None:
                return
            self._loaded = self._make()
        self._loaded.change(image.client_quotas)
        self.enforcer = self._loaded if image.client_quotas else None


NO_QUOTAS: Final = QuotaSwitch()
"""The switch of listeners on which no client is throttled."""
