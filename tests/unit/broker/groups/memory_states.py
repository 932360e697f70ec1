"""Share coordinators in memory that refuse, are late, lose answers and do things twice, by seed."""

import asyncio
from collections import Counter
from contextlib import asynccontextmanager
from dataclasses import dataclass

from esp.model.errors import ApiError, ErrorCode
from esp.schemas.share_state_records import NO_COMPLETE_COUNT, NO_START_OFFSET
from esp.share.persister import PersistedSummary


@dataclass
class State:
    epoch: int
    start_offset: int
    leader_epoch: int = 0
    complete_count: int = NO_COMPLETE_COUNT


class MemoryStates:
    """See :class:`esp.share.persister.StateKeeping`. ``chance`` is that of each fault; without a generator there are none."""

    def __init__(self, rng=None, chance=0.2):
        self.states = {}
        self.rng = rng
        self.chance = chance
        self.delay_s = 0.001
        self.away = set()
        """Keys whose share coordinator does not answer, and topics all of whose keys are so."""
        self.refusal = None
        """Set: the error of each request."""
        self.asked = []
        self.asking = Counter()
        self.most_at_a_time = 0
        """The most requests that were under way together."""

    async def initialize(self, key, state_epoch, start_offset):
        async with self._request("initialize", key, state_epoch, start_offset):
            known = self.states.get(key)
            if known is not None and state_epoch < known.epoch:
                raise ApiError(ErrorCode.fenced_state_epoch)
            if known is None or state_epoch > known.epoch:
                self.states[key] = State(state_epoch, start_offset)

    async def delete(self, key):
        async with self._request("delete", key):
            self.states.pop(key, None)

    async def read_summary(self, key):
        async with self._request("read", key):
            found = self.states.get(key)
        if found is None:
            return PersistedSummary(0, 0, NO_START_OFFSET, NO_COMPLETE_COUNT)
        return PersistedSummary(found.epoch, found.leader_epoch, found.start_offset, found.complete_count)

    def numbers(self, group="g"):
        """The partitions of which a group has a state."""
        return sorted(key.partition for key in self.states if key.group_id == group)

    @asynccontextmanager
    async def _request(self, *asked):
        key = asked[1]
        self.asked.append(asked)
        self.asking[key] += 1
        assert self.asking[key] == 1, "one share partition is asked about one thing at a time"
        self.most_at_a_time = max(self.most_at_a_time, self.asking.total())
        try:
            await asyncio.sleep(self.delay_s)
            if self._is_away(key):
                await asyncio.sleep(1_000)
            if self.refusal is not None:
                raise ApiError(self.refusal)
            if self._strikes():
                await asyncio.sleep(self.rng.choice((0.1, 1, 5, 15)))
            if self._strikes():
                raise ApiError(self.rng.choice((ErrorCode.coordinator_not_available, ErrorCode.network_exception)))
            yield
            if self._strikes():  # the answer is lost
                await asyncio.sleep(self.rng.choice((0.1, 3)))
                raise ApiError(ErrorCode.network_exception)
        finally:
            self.asking[key] -= 1

    def _is_away(self, key):
        return key in self.away or key.topic_id in self.away

    def _strikes(self):
        return self.rng is not None and self.rng.random() < self.chance
