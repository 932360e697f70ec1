"""Bugs of offsets that go on when topics are created again: other records under offsets and epochs that were used before."""

from typing import Final

from tests.mutants.mutant import RECREATED_TOPICS, Mutant

FLOOR_MUTANTS: Final = (
    Mutant(
        "floor-from-a-lagging-follower",
        "FLOOR-3 broken",
        "FLOOR-3",
        "esp.controller.offset_floors",
        "asked=state.leader,",
        "asked=state.replicas[-1],",
        kind=RECREATED_TOPICS,
    ),
    Mutant(
        "floor-lost-with-a-snapshot",
        "FLOOR-1 broken",
        "RAFT-33",
        "esp.controller.snapshot_records",
        "        yield from floor_records(name, floors)\n",
        "        pass\n",
        kind=RECREATED_TOPICS,
    ),
    Mutant(
        "same-leader-epoch-again",
        "FLOOR-2 broken",
        "FLOOR-2",
        "esp.controller.offset_floors",
        "state.leader_epoch + 1)",
        "state.leader_epoch)",
        kind=RECREATED_TOPICS,
    ),
    Mutant(
        "floor-without-a-report-is-the-old-start",
        "FLOOR-1 broken",
        "FLOOR-1",
        "esp.controller.offset_floors",
        "state.start_offset + OFFSET_SPAN)",
        "state.start_offset)",
        kind=RECREATED_TOPICS,
    ),
    Mutant(
        "ends-of-an-earlier-topic-count",
        "FLOOR-3 broken",
        "FLOOR-3",
        "esp.controller.offset_floors",
        "piece is None or piece.topic_id != end.topic_id or end.topic in",
        "piece is None or end.topic in",
        kind=RECREATED_TOPICS,
        is_gap=True,
        covered_by="tests/unit/controller/test_offset_floors.py::"
        "test_a_report_that_comes_after_the_new_topic_changes_nothing",
    ),
    Mutant(
        "new-logs-begin-at-0",
        "FLOOR-2 broken",
        "FLOOR-2",
        "esp.broker.replication.host",
        "                state.start_offset,\n            )\n            for topic, state in missing",
        "                0,\n            )\n            for topic, state in missing",
        kind=RECREATED_TOPICS,
    ),
)
