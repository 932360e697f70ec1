"""Keeps this controller registered in the metadata as it is: its addresses, and the features that it supports (KIP-919).

Every controller registers with the active one, which may be itself, as soon as it knows the metadata and its process is not named there;
and again should another process with its number have taken its place.
"""

import logging
from typing import Final, Protocol

from kio.schema.controller_registration.v0.request import ControllerRegistrationRequest, Feature, Listener
from kio.static.primitive import i32

from esp.broker.controller_client.channel import ControllerCalls
from esp.broker.controller_client.registration_fields import encode_features, encode_listeners
from esp.broker.raft.loader import OnChange
from esp.broker.tasks import Tasks
from esp.controller.brokers import ControllerRegistration
from esp.controller.image import ClusterImage
from esp.model.errors import ApiError, ErrorCode
from esp.ports.env import Env
from esp.protocol.registry import ApiKey

log = logging.getLogger(__name__)

ATTEMPT_MS: Final = 5_000
"""The time for which an attempt looks for an active controller."""

PAUSE_US: Final = 1_000_000
"""Between attempts: meanwhile the committed registration arrives here."""


class Metadata(Protocol):
    """The part of :class:`~esp.broker.raft.loader.MetadataLoader` that the registration needs."""

    @property
    def image(self) -> ClusterImage:
        """The committed state."""

    def subscribe(self, callback: OnChange) -> None:
        """Call ``callback`` with every committed image and what it changed."""


class ControllerRegistrar:
    """Registers one controller.

    Args:
        env: the outside.
        tasks: where attempts live.
        channel: to the active controller.
        metadata: as it is known here.
        registration: what the controller says of itself.
    """

    def __init__(
        self, env: Env, tasks: Tasks, channel: ControllerCalls, metadata: Metadata, registration: ControllerRegistration
    ) -> None:
        self._env = env
        self._tasks = tasks
        self._channel = channel
        self._metadata = metadata
        self._registration = registration
        self._is_registering = False

    def start(self) -> None:
        """Register as soon as the metadata is known, and whenever it is needed again."""
        self._metadata.subscribe(lambda _image, _delta: self._maybe_register())

    def _maybe_register(self) -> None:
        if not self._is_registering and not self._is_known:
            self._is_registering = True
            self._tasks.start(self._register(), name="controller registration")

    @property
    def _is_known(self) -> bool:
        own = self._registration
        known = self._metadata.image.controllers.get(own.node_id)
        return known is not None and known.incarnation_id == own.incarnation_id

    async def _register(self) -> None:
        request = registration_request(self._registration)
        while not self._is_known:
            try:
                answer = await self._channel.call(ApiKey.CONTROLLER_REGISTRATION, request, timeout_ms=ATTEMPT_MS)
            except ApiError as error:
                log.debug("controller registration: %s", error)
                continue
            if answer.error_code is not ErrorCode.none:
                log.warning("the active controller refused the registration: %s", answer.error_code.name)
            await self._env.clock.sleep_us(PAUSE_US)
        self._is_registering = False


def registration_request(registration: ControllerRegistration) -> ControllerRegistrationRequest:
    """The message that says ``registration``."""
    return ControllerRegistrationRequest(
        controller_id=i32(registration.node_id),
        incarnation_id=registration.incarnation_id,
        zk_migration_ready=False,
        listeners=encode_listeners(Listener, registration.endpoints, registration.security_protocols),
        features=encode_features(Feature, registration.features),
    )
