"""Bugs of the trash: topics that come back as others than they were, or with logs that lack what was acknowledged."""

from typing import Final

from tests.mutants.mutant import TRASHED_TOPICS, Mutant

TRASH_MUTANTS: Final = (
    Mutant(
        "trash-lost-with-a-snapshot",
        "TRASH-1 broken",
        "RAFT-33",
        "esp.controller.snapshot_records",
        "        yield trash_record(trashed)\n",
        "        yield trash_record(trashed).__class__(topic_id=trashed.topic.topic_id)\n",
        kind=TRASHED_TOPICS,
    ),
    Mutant(
        "restored-logs-begin-anew",
        "TRASH-3 broken",
        "TRASH-3",
        "esp.broker.replication.host",
        "        if (found := self.find_trashed(replica.topic_id, name.partition)) is not None:\n",
        "        if (found := self.find_trashed(replica.topic_id, name.partition)) is not None and not replica.name:\n",
        kind=TRASHED_TOPICS,
    ),
    Mutant(
        "restored-where-a-replica-lagged",
        "TRASH-3 broken",
        "TRASH-3",
        "esp.controller.trash",
        "    complete = {*state.isr, *state.elr}\n",
        "    complete = {*state.replicas}\n",
        kind=TRASHED_TOPICS,
    ),
    Mutant(
        "same-leader-epoch-after-the-trash",
        "TRASH-3 broken",
        "TRASH-3",
        "esp.controller.trash",
        "LeaderEpoch(state.leader_epoch + 1)",
        "LeaderEpoch(state.leader_epoch)",
        kind=TRASHED_TOPICS,
    ),
    Mutant(
        "restored-with-an-open-transaction",
        "TRASH-4 broken",
        "TRASH-4",
        "esp.broker.replication.roles",
        "            if state.restored_epoch >= 0:\n",
        "            if state.restored_epoch >= 1 << 30:\n",
        kind=TRASHED_TOPICS,
        is_gap=True,  # no transaction of a run writes to such a topic; tests/unit/broker/test_trashed_topics.py sees it
    ),
    Mutant(
        "purged-by-the-wall-clock",
        "TRASH-5 broken",
        "TRASH-5",
        "esp.controller.trash",
        "    return min(max(trashed.until_ms - wall_ms, GRACE_MS), retention_ms)\n",
        "    return trashed.until_ms - wall_ms\n",
        kind=TRASHED_TOPICS,
        is_gap=True,  # a topic that is purged early is no violation of a run; tests/unit/controller/test_trash.py sees it
    ),
)
