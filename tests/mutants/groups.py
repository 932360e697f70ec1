"""Bugs of consumer groups: offsets that are told too early, generations that are not kept apart, rebalances that nobody hears of."""

from typing import Final

from tests.mutants.mutant import DELETED_OFFSETS, Mutant

GROUPS: Final = "GROUPS"
"""Stands for what docs/GROUPS.md says of generations and assignments, which has no number."""

GROUP_MUTANTS: Final = (
    Mutant(
        "offset-acknowledged-before-commit",
        "HW-2 broken",
        "HW-2",
        "esp.broker.coordination.driver",
        "        if not appended or self._hosted.log.high_watermark < appended[0].next_offset:\n",
        "        if not appended or self._hosted.log.log_end_offset < appended[0].next_offset:\n",
    ),
    Mutant(
        "uncommitted-offset-is-told",
        "PROMISE-3 broken",
        "PROMISE-3",
        "esp.groups.offset_requests",
        "        offsets = store.committed(request.group_id)\n",
        "        offsets = store.newest(request.group_id)\n",
    ),
    Mutant(
        "loading-stands-beside-the-partitions-alone",
        "aiokafka reads from the start",
        GROUPS,
        "esp.broker.apis.offset_fetch",
        "(group.topics is None or request.api_version >= MANY_GROUPS_FROM)",
        "request.api_version >= 2",
    ),
    Mutant(
        "deletion-of-offsets-is-told-before-it-is-committed",
        "PROMISE-3 broken",
        "KIP-496",
        "esp.groups.offset_requests",
        "        self._append(tuple(changes), ticket, result, lambda error: OffsetDeleteResult(error=error), now)\n",
        """        if changes:
            append_changes(self._state, tuple(changes), now)
        self._state.outbox.answer(ticket, result)
""",
        kind=DELETED_OFFSETS,
    ),
    Mutant(
        "deleted-group-keeps-its-offsets",
        "KIP-229 broken",
        "KIP-229",
        "esp.groups.deletion",
        "        partitions = dict.fromkeys([*offsets.newest(group_id), *offsets.transactional.partitions(group_id)])\n",
        "        partitions = dict.fromkeys(offsets.transactional.partitions(group_id))\n",
        kind=DELETED_OFFSETS,
    ),
    Mutant(
        "commit-of-an-earlier-generation",
        "fenced commits",
        GROUPS,
        "esp.groups.offset_requests",
        "        if request.generation_id != group.generation_id:\n"
        "            raise ApiError(ErrorCode.illegal_generation)\n"
        "        if group.state is",
        "        if request.generation_id > group.generation_id:\n"
        "            raise ApiError(ErrorCode.illegal_generation)\n"
        "        if group.state is",
    ),
    Mutant(
        "generation-is-not-loaded",
        "groups forget",
        GROUPS,
        "esp.groups.coordinator",
        "            self._install(load_group(group_id, value))\n",
        "            self._install(Group(group_id, None))\n",
    ),
    Mutant(
        "assignment-told-before-it-is-written",
        "told too early",
        GROUPS,
        "esp.groups.leaving",
        """            self._state.appends.append(
                [generation_record(group, assignments)],
                now,
                outcome=partial(self._on_outcome, group, group.generation_id, assignments),
            )
""",
        "            self._on_outcome(group, group.generation_id, assignments, None, now)\n",
    ),
    Mutant(
        "assignments-of-two-members-are-one",
        "two owners",
        GROUPS,
        "esp.groups.leaving",
        '            member.assignment = assignments.get(member.member_id, b"")\n',
        "            member.assignment = next(iter(assignments.values()))\n",
    ),
    Mutant(
        "heartbeat-does-not-tell-of-a-rebalance",
        "no rebalance",
        GROUPS,
        "esp.groups.leaving",
        "        if group.state is GroupState.PREPARING_REBALANCE:\n            return ErrorCode.rebalance_in_progress\n",
        "",
    ),
)
