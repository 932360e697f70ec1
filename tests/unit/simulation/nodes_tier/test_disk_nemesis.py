"""Which of a node's files rot first."""

from types import SimpleNamespace

from esp.simulation.nodes_tier.disk_nemesis import _prefer_sealed


def target(directory, number):
    return SimpleNamespace(directory=directory, path=f"{directory}/{number:020d}.log")


def test_segments_that_nobody_appends_to_are_preferred_where_there_are_any():
    sealed, active, alone = target("/data/a-0", 0), target("/data/a-0", 7), target("/data/b-0", 3)
    assert _prefer_sealed([sealed, active, alone]) == [sealed]
    assert _prefer_sealed([alone]) == [alone]
