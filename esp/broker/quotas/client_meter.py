"""The quotas of one connection's client, and what it uses of them.

A client is a user and a client id; requests of one connection may name several client ids, so a meter is for the last one.
"""

import struct
from collections.abc import Callable
from typing import Final

from esp.broker.quotas.uses import Counted, QuotaUses
from esp.broker.request import ClientContext, Excess, FetchVerdict
from esp.model.buffers import Buffer
from esp.model.client_quotas import (
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    QuotaEntity,
)
from esp.protocol.registry import ApiKey
from esp.protocol.throttle_time import with_throttle_time
from esp.quotas.limited_rate import LimitedRate

LENGTH_SIZE: Final = 4
"""Bytes of a frame's length, which is not counted."""

_KIND: Final = struct.Struct(">hh")
"""API key and version, behind the length."""

US_OF_PERCENT: Final = 10_000
"""A hundredth of a second: a rate of one of them a second is one percent of the loop."""

_UNTHROTTLED: Final = FetchVerdict(0, is_sent=True)


class ClientMeter:
    """Counts for one connection; see :class:`esp.broker.request.Meter` and :class:`esp.broker.shortcut_counter.ShortcutMeter`.

    Args:
        uses: has the quotas and the rates.
        client: the connection's.
        client_id: the client id that its requests name.
    """

    __slots__ = (
        "_client",
        "_fetched",
        "_mutated",
        "_now_us",
        "_produced",
        "_produced_rate",
        "_spent",
        "_spent_rate",
        "_user",
        "_uses",
        "client_id",
        "is_limited",
        "principal",
        "version",
    )

    def __init__(self, uses: QuotaUses, client: ClientContext, client_id: str | None) -> None:
        self._uses = uses
        self._client = client
        self._now_us: Callable[[], int] = uses.now_us
        self.client_id = client_id
        self.principal = client.principal
        """The client's, which is another one once the connection is authenticated."""
        self._user = ""
        self.version = -1
        self._produced: Counted | None = None
        self._fetched: Counted | None = None
        self._spent: Counted | None = None
        self._mutated: QuotaEntity | None = None
        """The entity whose quota bounds changes to partitions."""
        self._produced_rate: LimitedRate | None = None
        self._spent_rate: LimitedRate | None = None
        """The rate by which each request is counted, at hand."""
        self.is_limited = False
        """True if any quota counts for the client."""
        self.resolve()

    def resolve(self) -> None:
        """Look the quotas up."""
        uses, client_id = self._uses, self.client_id or ""
        user = self._user = self.principal.partition(":")[2]
        self.version = uses.version
        self._produced = uses.counted(PRODUCER_BYTE_RATE, user, client_id)
        self._fetched = uses.counted(CONSUMER_BYTE_RATE, user, client_id)
        self._spent = uses.counted(REQUEST_PERCENTAGE, user, client_id)
        self._produced_rate = self._produced.rate if self._produced is not None else None
        self._spent_rate = self._spent.rate if self._spent is not None else None
        mutated = uses.limits.find(CONTROLLER_MUTATION_RATE, user, client_id)
        self._mutated = None if mutated is None else mutated.entity
        self.is_limited = bool(self._produced or self._fetched or self._spent or self._mutated)

    @property
    def counts_time(self) -> bool:
        """True if the client's time of the loop is limited."""
        return self._spent is not None

    def charge_repeated(self, frame: memoryview, answer: Buffer, began_us: int, now_us: int) -> Buffer:
        """See :class:`esp.broker.shortcut_counter.ShortcutMeter`."""
        api_key, version = _KIND.unpack_from(frame, LENGTH_SIZE)
        throttle_ms = self.charge(api_key, len(frame) - LENGTH_SIZE, now_us - began_us, now_us)
        return with_throttle_time(api_key, version, answer, throttle_ms) if throttle_ms else answer

    def charge(self, api_key: int, size: int, elapsed_us: int, now_us: int) -> int:
        """Count a request that has been handled; return the milliseconds for which its connection is muted because of it."""
        now_ms = now_us // 1000
        produced, spent = self._produced_rate, self._spent_rate
        is_counted = produced is not None and api_key == ApiKey.PRODUCE
        for_bytes_ms = produced.count(size, now_ms) if produced is not None and is_counted else 0
        for_time_ms = spent.count(elapsed_us / US_OF_PERCENT, now_ms) if spent is not None else 0
        return self._throttle(for_bytes_ms, for_time_ms, now_us) if for_bytes_ms or for_time_ms else 0

    def _throttle(self, for_bytes_ms: int, for_time_ms: int, now_us: int) -> int:
        """Mute the connection: for the time of requests, for one window at most."""
        if for_bytes_ms and self._produced is not None:
            self._mute(PRODUCER_BYTE_RATE, self._produced.entity, for_bytes_ms, now_us)
        if for_time_ms and self._spent is not None:
            for_time_ms = min(for_time_ms, self._uses.windows.size_ms)
            self._mute(REQUEST_PERCENTAGE, self._spent.entity, for_time_ms, now_us)
        return max(for_bytes_ms, for_time_ms)

    def _mute(self, key: str, entity: QuotaEntity, throttle_ms: int, now_us: int) -> None:
        self._uses.on_throttle(key, entity, throttle_ms)
        excess = Excess(key, entity, self._user, self.client_id or "")
        self._client.hold.mute(now_us + throttle_ms * 1000, excess)

    def spend(self, elapsed_us: int) -> None:
        """Count time that work for an earlier request has taken; the next request is throttled for it."""
        if self._spent is not None:
            self._spent.rate.count(elapsed_us / US_OF_PERCENT, self._now_us() // 1000)

    def fetch_bytes_max(self) -> int | None:
        """See :class:`esp.broker.request.Meter`."""
        self._follow()
        if self._fetched is None:
            return None
        windows = self._uses.windows
        return int(self._fetched.rate.limit * (windows.number - 1) * windows.size_ms / 1000)

    def charge_fetch(self, size: int) -> FetchVerdict:
        """See :class:`esp.broker.request.Meter`.

        What is not sent is not counted (KIP-219). A batch that is too large for all windows together is sent where nothing else has been
        lately, and waited for after that: Kafka never sends it.
        """
        self._follow()
        if self._fetched is None or self._client.is_broker:
            return _UNTHROTTLED
        rate, entity = self._fetched
        now_us = self._now_us()
        now_ms = now_us // 1000
        throttle_ms = rate.count(size, now_ms)
        if not throttle_ms:
            return _UNTHROTTLED
        rate.count(-size, now_ms)
        is_first = rate.is_unused(now_ms)
        if is_first:
            rate.count(size, now_ms)
        self._mute(CONSUMER_BYTE_RATE, entity, throttle_ms, now_us)
        return FetchVerdict(throttle_ms, is_first)

    def charge_sent(self, size: int) -> int:
        """See :class:`esp.broker.request.Meter`."""
        self._follow()
        if self._fetched is None:
            return 0
        now_us = self._now_us()
        throttle_ms = self._fetched.rate.count(size, now_us // 1000)
        if throttle_ms:
            self._mute(CONSUMER_BYTE_RATE, self._fetched.entity, throttle_ms, now_us)
        return throttle_ms

    @property
    def counts_mutations(self) -> bool:
        """See :class:`esp.broker.request.Meter`."""
        self._follow()
        return self._mutated is not None

    def throttle_mutations(self, throttle_ms: int) -> None:
        """See :class:`esp.broker.request.Meter`."""
        self._follow()
        if self._mutated is not None:
            self._mute(CONTROLLER_MUTATION_RATE, self._mutated, throttle_ms, self._now_us())

    def _follow(self) -> None:
        if self.version != self._uses.version:
            self.resolve()
