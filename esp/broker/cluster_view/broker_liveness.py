"""The liveness of the brokers to which clients are about to be sent: probed, not assumed.

When a leader's process dies, its clients ask another broker for the new leader within a millisecond: before a controller can have elected
one, and often before this node has seen anything of that death. A client that gets the dead leader again may wait for long until it
asks once more (librdkafka: a second). So a request that names topics gets its answer when the other nodes that lead them have answered
a request sent meanwhile, which costs a fraction of a millisecond. A node that does not answer is lost: the client's answer then waits until
the controller has fenced that node, it is found again, or a short time is over (FAST-2). A silent host delays an answer by ``CONFIRM_MS``
only.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from esp.broker.connections.peer import Peer, PeerUnavailableError
from esp.broker.waiting import Waiters, time_limit
from esp.model.ids import NodeId
from esp.model.peer_terms import PeerTerms
from esp.ports.env import Env
from esp.ports.network import Address
from esp.protocol.fetch_codec import FINAL_EPOCH
from esp.protocol.follower_fetch_codec import FETCH_VERSION, FollowerFetch, encode_follower_fetch
from esp.protocol.registry import ApiKey

CONFIRM_MS: Final = 50
"""The time in which a node may show that it is alive; after that nothing is known."""

HOLD_US: Final = 400_000
"""The time after a loss for which answers are held back: enough to elect a controller, and then leaders."""

CONFIRMED_MAX: Final = 8
"""An answer that names more leaders than these is given as it is: it would cost too much to ask all of them."""

LINGER_US: Final = 2_000_000
"""The time for which clients still see a broker that serves no more, as one that leads nothing.

librdkafka ends its thread for a broker that is missing from an answer, and if the same answer moves a partition away from that broker, the
partition may be lost in between, for a second. Kafka tells of a dead broker for as long as its session lasts (9 s): clients can live with
it.
"""

_RETRY_US: Final = 5_000
_CALL_TIMEOUT_MS: Final = 10_000

_CONSUMER: Final = -1
_PING: Final = encode_follower_fetch(FollowerFetch(_CONSUMER, -1, 0, 0, 0, 0, FINAL_EPOCH), (), ())
"""A fetch of nothing, without a session: what a broker answers with the least effort."""


class BrokerLiveness:
    """The probes of other brokers, and the answers that wait for them.

    Args:
        env: the outside.
        node_id: this node, which is alive.
        address_of: the address of a broker for other brokers; None if that is not known.
        terms: the terms of connections to brokers.
    """

    def __init__(
        self, env: Env, node_id: NodeId, address_of: Callable[[NodeId], Address | None], *, terms: PeerTerms
    ) -> None:
        self._env = env
        self._terms = terms
        self._node_id = node_id
        self._address_of = address_of
        self._peers: dict[NodeId, Peer] = {}
        self._held_until_us: dict[NodeId, int] = {}
        self._alive: frozenset[NodeId] = frozenset()
        self._gone_since_us: dict[NodeId, int] = {}
        self._waiters = Waiters(env.clock)

    async def confirm(self, leaders: Iterable[NodeId]) -> None:
        """Return when all of these brokers have shown that they are alive, or what became of them is known, or waiting is of no use."""
        others = [node_id for node_id in sorted(set(leaders)) if node_id != self._node_id and node_id >= 0]
        if not others or len(others) > CONFIRMED_MAX:
            return
        try:
            async with time_limit(self._env.clock, CONFIRM_MS):
                await asyncio.gather(*map(self._ask, others))
        except TimeoutError:
            pass
        while (left_us := self._left_us(others)) > 0:
            await self._waiters.wait(left_us)

    def retain(self, alive: frozenset[NodeId]) -> None:
        """Clients see these brokers as alive now, and no others: what the others led has another leader, or none."""
        now_us = self._env.clock.monotonic_us()
        self._gone_since_us = {
            node_id: self._gone_since_us.get(node_id, now_us)
            for node_id in sorted(self._alive | self._gone_since_us.keys())
            if node_id not in alive
        }
        self._alive = alive
        for node_id in [node_id for node_id in self._held_until_us if node_id not in alive]:
            self._find(node_id)
        for node_id in [node_id for node_id in self._peers if node_id not in alive]:
            self._peers.pop(node_id).close()

    def just_gone(self) -> frozenset[NodeId]:
        """Brokers that have served until a moment ago, as clients see them."""
        since_us = self._env.clock.monotonic_us() - LINGER_US
        return frozenset(node_id for node_id, gone_us in self._gone_since_us.items() if gone_us > since_us)

    def close(self) -> None:
        """End all connections."""
        for peer in self._peers.values():
            peer.close()
        self._peers.clear()

    async def _ask(self, node_id: NodeId) -> None:
        """Return when the broker has answered, or cannot be reached because no process listens at its address."""
        while (peer := self._peer(node_id)) is not None:
            try:
                await peer.call_raw(ApiKey.FETCH, FETCH_VERSION, (_PING,), timeout_ms=_CALL_TIMEOUT_MS)
            except PeerUnavailableError as error:
                if node_id in self._gone_since_us:  # clients were told of its end while it was asked
                    return
                # A lost connection may be the first sign of a death of which the listener does not know yet.
                self._held_until_us.setdefault(node_id, self._env.clock.monotonic_us() + HOLD_US)
                if error.refused:
                    return
                await self._env.clock.sleep_us(_RETRY_US)
            else:
                self._find(node_id)
                return

    def _find(self, node_id: NodeId) -> None:
        if self._held_until_us.pop(node_id, None) is not None:
            self._waiters.wake()

    def _left_us(self, node_ids: Iterable[NodeId]) -> int:
        now_us = self._env.clock.monotonic_us()
        return max((self._held_until_us.get(node_id, 0) - now_us for node_id in node_ids), default=0)

    def _peer(self, node_id: NodeId) -> Peer | None:
        address = self._address_of(node_id)
        peer = self._peers.get(node_id)
        if address is not None and (peer is None or peer.address != address):
            if peer is not None:
                peer.close()
            peer = self._peers[node_id] = Peer(
                self._env, address, client_id=f"broker-{self._node_id}-liveness", terms=self._terms
            )
        return peer
