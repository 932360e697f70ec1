"""Bugs of what clients are told of offsets: it goes back from leader to leader, or comes from somebody who cannot know it."""

from typing import Final

from tests.mutants.mutant import ASKED_OFFSETS, REPLACED_LEADERS, Mutant

HISTORY_MUTANTS: Final = (
    Mutant(
        "latest-offset-before-the-own-epoch",
        "KAFKA-2334, KIP-207",
        "READ-1",
        "esp.broker.apis.list_offsets",
        "        elif leader.is_high_watermark_current:\n",
        "        elif leader is not None:\n",
    ),
    Mutant(
        "new-leader-finds-no-time",
        "KIP-207",
        "READ-4",
        "esp.broker.apis.list_offsets",
        "        return _found(wanted, -1, -1, -1) if was_current else _not_known_yet(request, wanted)\n",
        "        return _found(wanted, -1, -1, -1)\n",
    ),
    Mutant(
        "offsets-of-any-epoch",
        "KIP-320",
        "READ-2",
        "esp.broker.apis.list_offsets",
        "    hosted.leading(wanted.current_leader_epoch)\n    return hosted\n",
        "    hosted.leading()\n    return hosted\n",
    ),
    Mutant(
        "follower-read-above-its-high-watermark",
        "PROMISE-3 broken",
        "PROMISE-3",
        "esp.replication.partition_follower",
        "        return check_position(self.log, fetch_offset, last_fetched_epoch)\n",
        "        offsets = check_position(self.log, fetch_offset, last_fetched_epoch)\n"
        "        return offsets._replace(high_watermark=self.log.log_end_offset)\n",
    ),
    Mutant(
        "replaced-leader-denies-offsets",
        "BRK-9 broken",
        "READ-5",
        "esp.broker.data_path.pending_fetch",
        "        if code is ErrorCode.offset_out_of_range and not self._reads.is_current():\n",
        "        if code is None and not self._reads.is_current():\n",
        kind=REPLACED_LEADERS,
    ),
    Mutant(
        "every-epoch-ends-at-the-log-end",
        "KIP-101, KIP-320",
        "READ-5",
        "esp.broker.apis.offset_for_leader_epoch",
        "log.leader_epochs.end_offset_for(wanted.leader_epoch, log.log_end_offset)",
        "wanted.leader_epoch, log.log_end_offset",
        kind=ASKED_OFFSETS,
    ),
    Mutant(
        "followers-high-watermark-falls",
        "HW-7 broken",
        "READ-6",
        "esp.replication.partition_follower",
        "        if committed >= log.high_watermark:\n",
        "        if committed >= log.log_start_offset:\n",
    ),
    Mutant(
        "offsets-are-told-before-they-are-loaded",
        "groups forget",
        "GROUPS",
        "esp.broker.apis.offset_fetch",
        "        core = coordinator.core\n",
        "        core = coordinator._core\n",
        is_gap=True,
        covered_by="tests/unit/broker/apis/test_offset_fetch.py::test_no_offsets_are_fetched_before_the_log_is_read",
    ),
)
