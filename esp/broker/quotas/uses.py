"""The quotas in force at a node, and the use that its clients have made of them lately."""

import hashlib
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from esp.model.client_quotas import CONNECTION_CREATION_RATE, CONTROLLER_MUTATION_RATE, QuotaEntity
from esp.ports.clock import Clock
from esp.quotas.limited_rate import LimitedRate
from esp.quotas.limits import Limit, QuotaLimits, Sharers
from esp.quotas.rate import Windows
from esp.quotas.token_bucket import TokenBucket
from esp.settings.broker import BrokerSettings

USED_MAX: Final = 10_000
"""Rates and buckets that are kept. Client ids beyond them share those of their user: no client fills the node's memory with names."""


CLIENT_ID_CHARACTERS_MAX: Final = 256
"""Longer client ids are kept by a digest, for the same reason: a request has room for one of 32,767 bytes."""


class Counted(NamedTuple):
    """A use that is counted, together with that of all clients that share the limit, and the entity that has the quota."""

    rate: LimitedRate
    entity: QuotaEntity


class CountedMutations(NamedTuple):
    """The changes to partitions that are counted."""

    bucket: TokenBucket
    limit: float
    entity: QuotaEntity


class QuotaUses:
    """Counts for all connections of a node.

    Args:
        clock: the node's.
        settings: the node's own: windows.
        on_swept: called when rates have been forgotten, so that they must be looked up again before they are used.
    """

    def __init__(self, clock: Clock, settings: BrokerSettings, on_swept: Callable[[], None]) -> None:
        self.now_us = clock.monotonic_us
        self.windows = Windows(settings.quota_window_num, settings.quota_window_size_seconds * 1000)
        """The windows of rates."""
        self._mutation_windows = Windows(
            settings.controller_quota_window_num, settings.controller_quota_window_size_seconds * 1000
        )
        self.limits = QuotaLimits({})
        """The quotas in force."""
        self.version = 0
        """Changes with them."""
        self._used: dict[tuple[str, Sharers], LimitedRate | TokenBucket] = {}
        self._swept_ms = 0
        self._on_swept = on_swept
        self.throttled: dict[tuple[str, QuotaEntity], tuple[int, int]] = {}
        """By key and entity of a quota: how often clients were throttled because of it, and the milliseconds in sum."""

    def change(self, quotas: Mapping[QuotaEntity, Mapping[str, float]]) -> None:
        """Put other quotas in force; use that was counted stays counted."""
        self.limits = QuotaLimits(quotas)
        self.version += 1
        self.throttled = {
            (key, entity): counts for (key, entity), counts in self.throttled.items() if key in quotas.get(entity, {})
        }

    def counted(self, key: str, user: str, client_id: str) -> Counted | None:
        """A client's use of a quota; None if it has none."""
        limit = self.limits.find(key, user, client_id)
        return None if limit is None else Counted(self._rate(key, limit), limit.entity)

    def _rate(self, key: str, limit: Limit) -> LimitedRate:
        now_ms = self.now_us() // 1000
        rate = self._shared(key, limit.sharers, now_ms, lambda: LimitedRate(self.windows, limit.value, now_ms))
        assert isinstance(rate, LimitedRate), "each key is counted in one way"
        rate.set_limit(limit.value)
        return rate

    def counted_mutations(self, user: str, client_id: str) -> CountedMutations | None:
        """A client's limit of changes to partitions, and its bucket; None if there is none."""
        limit = self.limits.find(CONTROLLER_MUTATION_RATE, user, client_id)
        if limit is None:
            return None
        now_ms = self.now_us() // 1000
        bucket = self._shared(
            CONTROLLER_MUTATION_RATE, limit.sharers, now_ms, lambda: TokenBucket(self._mutation_windows, now_ms)
        )
        assert isinstance(bucket, TokenBucket), "each key is counted in one way"
        return CountedMutations(bucket, limit.value, limit.entity)

    def take_mutations(self, user: str, client_id: str, partitions: int, *, strict: bool) -> int:
        """Count changes to partitions of a client; return the milliseconds for which the client must wait.

        Args:
            user: the name of the client's user.
            client_id: its client id.
            partitions: the number of partitions that it creates or deletes.
            strict: True: changes are not made, and not counted, while there is a debt from earlier ones.
        """
        counted = self.counted_mutations(user, client_id)
        if counted is None:
            return 0
        bucket, limit, _ = counted
        now_ms = self.now_us() // 1000
        debt_ms = bucket.throttle_ms(limit, now_ms)
        if strict and debt_ms:
            return debt_ms
        bucket.take(partitions, limit, now_ms)
        return 0 if strict else bucket.throttle_ms(limit, now_ms)

    def _shared(
        self, key: str, sharers: Sharers, now_ms: int, make: Callable[[], LimitedRate | TokenBucket]
    ) -> LimitedRate | TokenBucket:
        """The use of all clients that share a limit, added up."""
        client_id = sharers[1]
        if client_id is not None and len(client_id) > CLIENT_ID_CHARACTERS_MAX:
            sharers = (sharers[0], hashlib.sha256(client_id.encode()).hexdigest())
        used = self._used.get((key, sharers))
        if used is not None:
            return used
        if len(self._used) >= USED_MAX and now_ms - self._swept_ms >= self.windows.size_ms:
            self._swept_ms = now_ms
            self._used = {name: each for name, each in self._used.items() if not each.is_idle(now_ms)}
            self.version += 1  # connections that have been idle for long look theirs up again
            self._on_swept()
        if len(self._used) >= USED_MAX:
            sharers = (sharers[0], None)
        return self._used.setdefault((key, sharers), make())

    def admits_connection(self, address: str) -> bool:
        """True if an address may open a connection now; it is counted."""
        limit = self.limits.find_for_address(address)
        if limit is None:
            return True
        now_ms = self.now_us() // 1000
        rate = self._rate(CONNECTION_CREATION_RATE, limit)
        throttle_ms = rate.count(1, now_ms)
        if throttle_ms:
            rate.count(-1, now_ms)
            self.on_throttle(CONNECTION_CREATION_RATE, limit.entity, throttle_ms)
        return not throttle_ms

    def counted_addresses(self) -> list[str]:
        """The addresses whose connections are counted by themselves."""
        return [sharers[1] for key, sharers in self._used if key == CONNECTION_CREATION_RATE and sharers[1] is not None]

    def connection_wait(self, address: str) -> tuple[Limit | None, int]:
        """The limit of an address, and the milliseconds after which it may open a connection; nothing is counted."""
        limit = self.limits.find_for_address(address)
        if limit is None:
            return None, 0
        return limit, self._rate(CONNECTION_CREATION_RATE, limit).wait_ms(1, self.now_us() // 1000)

    def on_throttle(self, key: str, entity: QuotaEntity, throttle_ms: int) -> None:
        """A client is throttled because of a quota."""
        often, total_ms = self.throttled.get((key, entity), (0, 0))
        self.throttled[key, entity] = often + 1, total_ms + throttle_ms
