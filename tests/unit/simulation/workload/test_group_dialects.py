"""Which versions the members of a group speak."""

from random import Random

import pytest

from esp.protocol.registry import SERVED, ApiKey
from esp.simulation.workload.group_dialects import CURRENT, OLDER, draw_dialect

COLUMNS = {
    "find": ApiKey.FIND_COORDINATOR,
    "join": ApiKey.JOIN_GROUP,
    "sync": ApiKey.SYNC_GROUP,
    "heartbeat": ApiKey.HEARTBEAT,
    "leave": ApiKey.LEAVE_GROUP,
    "commit": ApiKey.OFFSET_COMMIT,
    "fetch": ApiKey.OFFSET_FETCH,
}


@pytest.mark.parametrize(("column", "key"), COLUMNS.items())
def test_the_oldest_release_speaks_the_oldest_versions_that_are_served(column, key):
    versions = [getattr(dialect, column) for dialect in (*OLDER, CURRENT)]
    assert versions == sorted(versions)
    assert versions[0] == SERVED[key].min_version
    assert SERVED[key].serves(versions[-1])


def test_all_releases_are_in_one_group():
    rng = Random(1)
    assert {draw_dialect(rng) for _ in range(200)} == {CURRENT, *OLDER}


def test_a_static_member_is_of_a_release_that_knows_static_members():
    rng = Random(1)
    drawn = {draw_dialect(rng, is_static=True) for _ in range(200)}
    assert drawn == {CURRENT, *(dialect for dialect in OLDER if dialect.join >= 5)}
