import pytest

from esp.replication.partition_follower import is_clean_step
from tests.unit.replication.logs import ME, B, C, state

OLD = state(leader=ME, epoch=5, isr=(ME, B), partition_epoch=10)
EMPTY = state(leader=-1, epoch=5, isr=(), elr=(B,), last_known_elr=(C,), partition_epoch=10)


@pytest.mark.parametrize(
    ("old", "new", "clean"),
    [
        (OLD, state(leader=B, epoch=6, isr=(B,), partition_epoch=11), True),
        (OLD, state(leader=C, epoch=6, isr=(C,), partition_epoch=11, recovering=True), False),
        (OLD, state(leader=C, epoch=6, isr=(C,), replicas=(C,), partition_epoch=11), True),  # a reassignment has ended
        (OLD, state(leader=B, epoch=7, isr=(B,), partition_epoch=12), False),
        (OLD, state(leader=ME, epoch=5, isr=(ME,), partition_epoch=14), True),
        (OLD, state(leader=-1, epoch=6, isr=(), partition_epoch=11), True),
        (EMPTY, state(leader=B, epoch=6, isr=(B,), partition_epoch=11), True),
        (EMPTY, state(leader=C, epoch=6, isr=(C,), partition_epoch=11, recovering=True), True),
        (EMPTY, state(leader=ME, epoch=6, isr=(ME,), partition_epoch=11, recovering=True), False),
    ],
)
def test_only_a_step_that_is_seen_whole_and_elects_a_known_complete_replica_is_clean(old, new, clean):
    assert is_clean_step(old, new) is clean
