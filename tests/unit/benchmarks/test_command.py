"""What both comparisons do alike."""

import io

import pytest
import typer
from rich.console import Console

from benchmarks.command import chosen, leave
from benchmarks.results import ESP, IDLE_MEMORY, KAFKA, PRODUCE_USER, Results


def test_both_are_measured_unless_one_is_named():
    assert chosen("") == [ESP, KAFKA]
    assert chosen(KAFKA) == [KAFKA]
    with pytest.raises(typer.BadParameter, match="neither esp nor kafka"):
        chosen("both")


@pytest.mark.parametrize(("brokers", "suffixes"), [((ESP, KAFKA), {"md", "json", "png"}), ((ESP,), {"md", "json"})])
def test_a_run_leaves_files_of_its_name_and_a_chart_only_of_a_comparison(tmp_path, brokers, suffixes):
    results = Results()
    for broker in brokers:
        results.add(broker, {PRODUCE_USER: 0.2, IDLE_MEMORY: 90.0})
    printed = io.StringIO()
    leave(Console(file=printed, width=500), results, tmp_path, {}, {"rounds": 1}, ["a note"], "cluster")
    assert {path.name for path in tmp_path.iterdir()} == {f"cluster.{suffix}" for suffix in suffixes}
    assert all(str(path) in printed.getvalue() for path in tmp_path.iterdir())
