"""Retention of many logs: what is past its limits goes, and the loop waits for no device (LOG-12).

A pass over thousands of replicas is one of slices, between which others have their turns. What a slice has to drop shares one checkpoint
of log starts in each directory. While it is written, :attr:`~esp.broker.replication.host.ReplicaHost.directories_lock` is held, so that no
log is cut or moved; :attr:`~esp.broker.replication.hosted_partition.HostedPartition.busy` is held for the moments in which a log's segments
change, since a flush goes by their names.

Of topics with ``retention.hold.groups`` only leaders drop what is past the limits, after they have asked what is read (HOLD-4); with the
others goes what is below their leader's log start.

Before age decides about a segment whose times are known from its index file alone, its batches are read (:mod:`esp.storage.time_proof`).
That may take seconds, and no lock is held meanwhile.
"""

import logging
from collections.abc import Mapping, Sequence
from contextlib import closing
from itertools import islice
from typing import Final

from esp.broker.replication.host import ReplicaHost, in_turns
from esp.broker.replication.hosted_partition import HostedPartition
from esp.broker.replication.retention_holds import Held, RetentionHolds
from esp.model.retention_hold import DroppedFront
from esp.ports.env import Env
from esp.storage.log_directory import LogDirectory

log = logging.getLogger(__name__)

DROPPED_TOGETHER_MAX: Final = 16
"""Logs for whose devices the lock of the directories is held in one go: some dozen milliseconds, as metadata may wait for it."""


async def delete_old_segments(env: Env, replicas: ReplicaHost, holds: RetentionHolds) -> None:
    """Apply retention by time and size to every log."""
    for turn in in_turns(replicas):
        due: Sequence[HostedPartition] = turn
        while due:
            now_ms = env.clock.wall_ms()
            # One segment of each log at a time, so that the first ones make room before the last ones are read.
            proven = [
                hosted
                for hosted in due
                if holds.hold_unasked(hosted) is None and await _prove_time(env, replicas, hosted, now_ms)
            ]
            await _drop_old(env, replicas, holds, due, now_ms)
            due = proven
    holds.retain(replicas)


async def _drop_old(
    env: Env, replicas: ReplicaHost, holds: RetentionHolds, logs: Sequence[HostedPartition], now_ms: int
) -> None:
    old = []
    for hosted in logs:
        if hosted.log.find_old_segments(now_ms, holds.hold_unasked(hosted)).deletable:
            old.append(hosted)
        else:
            holds.note_held(hosted, 0)
    held = await holds.hear(old)
    due = iter(old)
    while slice_ := tuple(islice(due, DROPPED_TOGETHER_MAX)):
        async with replicas.directories_lock:
            await _Retention(env, replicas, holds, held).run(slice_)
    await env.clock.sleep_us(0)


async def _prove_time(env: Env, replicas: ReplicaHost, hosted: HostedPartition, now_ms: int) -> bool:
    """Read a segment of a log whose age is in doubt; whether there was one, and its age is certain now (REC-4)."""
    if _directory_of(replicas, hosted) is None:
        return False
    try:
        proof = hosted.log.begin_time_proof(now_ms)
        if proof is None:
            return False
        with closing(proof):
            await proof.read(env.cpu)
            async with hosted.busy:
                return _directory_of(replicas, hosted) is not None and await hosted.log.end_time_proof(proof, env.cpu)
    except OSError as error:
        _tell(hosted, error)
        return False


def _directory_of(replicas: ReplicaHost, hosted: HostedPartition) -> LogDirectory | None:
    """The directory of a replica's log; None if it is no more, or its directory has failed."""
    if replicas.find(*hosted.name) is not hosted:
        return None
    return replicas.directories.holding(hosted.log)


class _Retention:
    """Retention of one slice of the logs: their old segments are hidden, then removed."""

    def __init__(
        self, env: Env, replicas: ReplicaHost, holds: RetentionHolds, held: Mapping[HostedPartition, Held]
    ) -> None:
        self._env = env
        self._replicas = replicas
        self._holds = holds
        self._held = held

    async def run(self, due: Sequence[HostedPartition]) -> None:
        hidden: dict[LogDirectory, list[tuple[HostedPartition, int]]] = {}
        for hosted in due:
            async with hosted.busy:
                directory = _directory_of(self._replicas, hosted)
                if directory is None:
                    continue
                try:
                    front = await self._hide(hosted)
                except OSError as error:  # it is not the other logs' fault, and they may make room
                    _tell(hosted, error)
                    continue
            if front is not None:
                hidden.setdefault(directory, []).append((hosted, front.start_offset))
        for directory, logs in hidden.items():
            try:
                await self._env.cpu.run(directory.write_log_starts_blocking)
            except OSError as error:
                for hosted, _ in logs:
                    _tell(hosted, error)
                continue
            for hosted, start_offset in logs:
                await self._drop(hosted, start_offset)

    async def _hide(self, hosted: HostedPartition) -> DroppedFront | None:
        now_ms, held = self._env.clock.wall_ms(), self._held.get(hosted)
        hold = self._holds.hold_of(hosted, held)
        front = await hosted.log.hide_old_segments(now_ms, hold)
        if front is not None and hosted.log.settings.retention_hold_groups:
            hosted.committed()  # followers, which go by this alone, are told soon
        if hold is not None:
            if held is not None and front is not None:
                self._holds.on_broken(hosted.name, held.groups, front.broken)
            self._holds.note_held(hosted, hosted.log.find_old_segments(now_ms, hold).held_bytes)
        return front

    async def _drop(self, hosted: HostedPartition, below: int) -> None:
        try:
            dropped = True
            while dropped:
                async with hosted.busy:
                    if _directory_of(self._replicas, hosted) is None:
                        return
                    dropped = await hosted.log.drop_segments(below, self._env.clock.wall_ms()) > 0
                await self._env.clock.sleep_us(0)
        except OSError as error:
            _tell(hosted, error)


def _tell(hosted: HostedPartition, error: OSError) -> None:
    log.error("%s: no segment can be dropped now: %s", hosted.log.path, error)
