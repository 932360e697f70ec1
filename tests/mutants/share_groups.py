"""Bugs of share groups (KIP-932): records with two members, accepted ones that come back, ones that no member gets."""

from typing import Final

from tests.mutants.mutant import SHARE_GROUPS, Mutant

RECORDS: Final = "KIP-932"

SHARE_GROUP_MUTANTS: Final = (
    Mutant(
        "record-whose-write-failed-has-no-timer",
        "KAFKA-19476",
        "SHARE-7",
        "esp.share.partition",
        """                if run.state is RecordState.ACQUIRED and run.write == NO_WRITE:
                    self._lock_until(run.lock_us)
""",
        """                if run.state is RecordState.ACQUIRED and run.write == NO_WRITE:
                    pass
""",
        kind=SHARE_GROUPS,
        is_gap=True,
        covered_by="tests/unit/share/test_partition.py::test_a_lock_that_ended_during_a_write_that_failed_ends_then",
    ),
    Mutant(
        "lock-ends-during-a-write",
        "KAFKA-19476",
        "SHARE-7",
        "esp.share.partition",
        """            if run.state is not RecordState.ACQUIRED or run.write != NO_WRITE:
                continue
            if run.lock_us <= now_us:
""",
        """            if run.state is not RecordState.ACQUIRED:
                continue
            if run.lock_us <= now_us:
""",
        kind=SHARE_GROUPS,
    ),
    Mutant(
        "end-of-a-session-passes-over-writes",
        "KAFKA-18084",
        "SHARE-6",
        "esp.share.partition",
        "changes = [self._changed(run, RecordEvent.RELEASE) for run in held if run.write == NO_WRITE]\n",
        "changes = [self._changed(run, RecordEvent.RELEASE) for run in held]\n",
        kind=SHARE_GROUPS,
    ),
    Mutant(
        "release-stops-at-another-members-record",
        "KAFKA-19953",
        "SHARE-14",
        "esp.share.partition",
        """            for run in self._window
            if run.state is RecordState.ACQUIRED and run.member_id == member_id
        ]
        self._replace(""",
        """            for run in __import__("itertools").takewhile(lambda one: one.member_id in ("", member_id), self._window)
            if run.state is RecordState.ACQUIRED and run.member_id == member_id
        ]
        self._replace(""",
        kind=SHARE_GROUPS,
    ),
    Mutant(
        "failed-write-leaves-a-gone-member-its-records",
        "KAFKA-19476",
        "SHARE-7",
        "esp.share.partition",
        "        self._replace([run for run in held if run.write != NO_WRITE])\n",
        "",
        kind=SHARE_GROUPS,
    ),
    Mutant(
        "gaps-after-a-change-of-leader-are-done-with",
        "KAFKA-18494",
        "SHARE-13",
        "esp.share.window",
        "            self.extend(batch.start_offset, RecordState.AVAILABLE)\n",
        "            self.extend(batch.start_offset, RecordState.ARCHIVED)\n",
        kind=SHARE_GROUPS,
        is_gap=True,
        covered_by="tests/unit/share/test_partition.py::test_a_new_leader_finds_gaps_between_what_was_written",
    ),
    Mutant(
        "available-range-stays-over-an-acceptance",
        "KAFKA-17367",
        "SHARE-21",
        "esp.share.state_batches",
        "            is_newer = (new.delivery_count, new.state) >= (old.delivery_count, old.state)\n",
        "            is_newer = old.state != 0\n",
        kind=SHARE_GROUPS,
    ),
    Mutant(
        "old-connection-ends-the-new-session",
        "KAFKA-19950",
        "SHARE-14",
        "esp.share.sessions",
        "        self._by_connection.setdefault(connection, {})[key] = None\n",
        """        self._by_connection.setdefault(connection, {})[key] = None
        if before is not None:
            self._by_connection.setdefault(before.connection, {})[key] = None
""",
        kind=SHARE_GROUPS,
        is_gap=True,
        covered_by="tests/unit/share/test_sessions.py::test_a_connection_ends_its_own_sessions_only",
    ),
    Mutant(
        "last-request-of-a-session-releases-nothing",
        "KAFKA-17396",
        "SHARE-14",
        "esp.broker.share.leaders",
        """        self._sessions.close(session)
        self._release([session])
""",
        """        self._sessions.close(session)
""",
        kind=SHARE_GROUPS,
    ),
    Mutant(
        "end-of-a-connection-releases-nothing",
        "KAFKA-19015",
        "SHARE-14",
        "esp.broker.share.leaders",
        "        self._release(self._sessions.end_connection(client))\n",
        "        self._sessions.end_connection(client)\n",
        kind=SHARE_GROUPS,
    ),
    Mutant(
        "window-grows-without-end",
        "KAFKA-19555",
        "SHARE-11",
        "esp.share.partition",
        "        has_room = self._window.span < self.settings.partition_max_record_locks\n",
        "        has_room = True\n",
        kind=SHARE_GROUPS,
        equivalent="nothing is read behind the limit, and acquiring looks at it once more",
    ),
    Mutant(
        "refused-initialisation-is-never-tried-again",
        "KAFKA-19204",
        "SHARE-23",
        "esp.groups.share.initialisation",
        "if one not in tries or tries[one].due_us <= now.monotonic_us)",
        "if one not in tries)",
        kind=SHARE_GROUPS,
        is_gap=True,
        covered_by="tests/unit/groups/share/test_initialisation.py::"
        "test_a_coordinator_that_refuses_is_asked_again_soon",
    ),
    Mutant(
        "state-epoch-is-not-looked-at-in-writes",
        "KIP-932 broken",
        "SHARE-20",
        "esp.share.coordinator.draft",
        """        if request.state_epoch != state.state_epoch or not self.is_read:
            raise ApiError(ErrorCode.fenced_state_epoch)
        self._require_topic()
        _require_valid(request)
""",
        """        self._require_topic()
        _require_valid(request)
""",
        kind=SHARE_GROUPS,
    ),
    Mutant(
        "leader-epoch-is-not-looked-at-in-writes",
        "KIP-932 broken",
        "SHARE-20",
        "esp.share.coordinator.draft",
        """        if request.leader_epoch < state.leader_epoch:
            raise ApiError(ErrorCode.fenced_leader_epoch)
        if request.state_epoch != state.state_epoch or not self.is_read:
""",
        """        if request.state_epoch != state.state_epoch or not self.is_read:
""",
        kind=SHARE_GROUPS,
    ),
    Mutant(
        "state-that-nobody-has-read-takes-writes",
        "KIP-932 broken",
        "SHARE-48",
        "esp.share.coordinator.draft",
        "        if request.state_epoch != state.state_epoch or not self.is_read:\n",
        "        if request.state_epoch < state.state_epoch:\n",
        kind=SHARE_GROUPS,
        is_gap=True,
        covered_by="tests/unit/share/coordinator/test_coordinator.py::"
        "test_leader_of_a_deleted_state_writes_nothing_into_the_one_that_follows",
    ),
    Mutant(
        "log-is-cut-above-the-oldest-snapshot",
        "KAFKA-18058",
        "SHARE-22",
        "esp.share.coordinator.coordinator",
        "        return min(offsets, default=self._end_offset)\n",
        "        return max(offsets, default=self._end_offset)\n",
        kind=SHARE_GROUPS,
    ),
    Mutant(
        "first-offset-is-not-persisted",
        "KIP-932 broken",
        "SHARE-16",
        "esp.broker.share.led_partition",
        "                await persister.write(self.key, persisted.state_epoch, leader_epoch, found)\n",
        "                _ = found\n",
        kind=SHARE_GROUPS,
    ),
    Mutant(
        "added-partition-begins-by-the-reset",
        "KAFKA-20742",
        "SHARE-23",
        "esp.groups.share.initialisation",
        "                _START_OF_LOG if one.partition in initialising[one.topic_id].from_start else NO_START_OFFSET,\n",
        "                NO_START_OFFSET,\n",
        kind=SHARE_GROUPS,
    ),
    Mutant(
        "aborted-records-are-delivered",
        "KIP-932 broken",
        "SHARE-5",
        "esp.broker.share.log_reads",
        "        if headers and settings.is_read_committed and log.aborted.may_exist:\n",
        "        if headers and not settings.is_read_committed and log.aborted.may_exist:\n",
        kind=SHARE_GROUPS,
    ),
    Mutant(
        "altered-offsets-are-not-read",
        "KIP-932 broken",
        "SHARE-49",
        "esp.broker.share.leaders",
        "            if opens_session and found.is_idle(self.clock.monotonic_us()):\n",
        "            if opens_session and found.is_idle(-1):\n",
        kind=SHARE_GROUPS,
    ),
    Mutant(
        "letters-that-are-not-taken-count-as-written",
        "KIP-1191 broken",
        "SHARE-40",
        "esp.broker.share.letter_writer",
        """            elif fate is Fate.AGAIN:
                await self._wait(f"{topic} does not take them yet: {error.name}")
                return settled
""",
        """            elif fate is Fate.AGAIN:
                settled += len(some)
""",
        kind=SHARE_GROUPS,
        is_gap=True,
        covered_by="tests/unit/broker/share/test_dead_letters.py::test_what_may_pass_is_tried_again",
    ),
    Mutant(
        "records-are-archived-before-their-letters",
        "KIP-1191 broken",
        "SHARE-40",
        "esp.broker.share.led_partition",
        "            end_offset = await self._letters.write(condemned)\n",
        "            self._put(core.bury(condemned, condemned[-1].end_offset))\n"
        "            end_offset = await self._letters.write(condemned)\n",
        kind=SHARE_GROUPS,
    ),
    Mutant(
        "records-that-are-condemned-meanwhile-are-buried",
        "KIP-1191 broken",
        "SHARE-40",
        "esp.share.partition",
        """            for piece in condemned
            if piece.start_offset < end_offset
            for run in self._window.between(piece.start_offset, min(piece.end_offset, end_offset))
""",
        """            for run in self._window.between(condemned[0].start_offset, end_offset)
""",
        kind=SHARE_GROUPS,
    ),
    Mutant(
        "released-attempt-is-not-persisted",
        "KIP-932 broken",
        "SHARE-9",
        "esp.share.partition",
        "    return StateBatch(run.start_offset, run.end_offset, target, run.delivery_count)\n",
        """    is_free = target is RecordState.AVAILABLE
    return StateBatch(run.start_offset, run.end_offset, target, run.delivery_count - is_free)
""",
        kind=SHARE_GROUPS,
        catchers=("INV-SHARE-COUNT",),
    ),
    Mutant(
        "updates-say-nothing-of-what-is-done-with",
        "KIP-932 broken",
        "SHARE-21",
        "esp.share.coordinator.state",
        """        batches=merge((), batches, state.start_offset),
        complete_count=state.complete_count,
""",
        """        batches=merge((), batches, state.start_offset),
        complete_count=NO_COMPLETE_COUNT,
""",
        kind=SHARE_GROUPS,
        catchers=("INV-GROUP-REPLAY",),
    ),
    Mutant(
        "altered-offset-has-no-lag",
        "KAFKA-20034",
        "KIP-1226",
        "esp.share.coordinator.state",
        "        NO_COMPLETE_COUNT if start_offset == NO_START_OFFSET else 0,\n",
        "        NO_COMPLETE_COUNT,\n",
        kind=SHARE_GROUPS,
    ),
    Mutant(
        "places-of-share-members-are-not-loaded",
        "KIP-932 broken",
        RECORDS,
        "esp.groups.keyed_groups",
        "        self.apply(record)\n        self.commit((record,))\n",
        "        self.apply(record)\n        self.commit((record,) if record.key.type != 14 else ())\n",
        kind=SHARE_GROUPS,
        catchers=("INV-GROUP-REPLAY",),
    ),
    Mutant(
        "share-group-begins-in-the-first-epoch-again",
        "as in Kafka",
        "SHARE-50",
        "esp.groups.share.directory",
        "        return ShareGroup(group_id, self._last_epochs.get(group_id, self._least_first_epoch))\n",
        "        return ShareGroup(group_id)\n",
        kind=SHARE_GROUPS,
    ),
)
