import io
import json

import pytest
import typer
from rich.console import Console

from benchmarks.results import Metric
from benchmarks.row_by_row import Report, RowByRow
from benchmarks.stage import Extent
from benchmarks.transactions.__main__ import PLAN, ROWS
from benchmarks.written import Rows

WORK = Metric("work", "Work", "s", 1)


def test_a_row_has_its_own_extent_and_the_others_the_common_one(tmp_path):
    written = Rows(tmp_path, ["large", "small"], stem="figures", title="Figures", metrics=[WORK])
    common, own = Extent(rounds=2, warm_up_rounds=0), Extent(rounds=1, warm_up_rounds=0, scale=0.1)
    report = RowByRow(
        console=Console(file=io.StringIO()),
        written=written,
        metrics=[WORK],
        extent=common,
        notes=[],
        data_dir=tmp_path,
        extents={"small": own},
    )
    used = {}

    def measure(row, stage):
        used[row] = stage.extent
        for number in stage.rounds():
            stage.take("esp", {WORK: 1.0}, number)

    report.measure(["large", "small"], measure)
    assert used == {"large": common, "small": own}
    about = {row: entry["about"] for row, entry in json.loads((tmp_path / "figures.json").read_text()).items()}
    assert [(about[row]["rounds"], about[row]["scale"]) for row in ("large", "small")] == [(2, 1.0), (1, 0.1)]


USUAL, QUICK, PLANNED = Extent(rounds=4), Extent(rounds=1), Extent(rounds=2)
REPORT = Report(
    stem="figures", title="Figures", rows=["row"], metrics=[WORK], notes=[], quick=QUICK, plan={"row": PLANNED}
)


def test_a_quick_run_has_an_extent_of_its_own_and_writes_nothing(tmp_path):
    run = REPORT.run(USUAL, tmp_path, quick=True)
    assert (run.extent, run.written, run.extents) == (QUICK, None, {})
    run = REPORT.run(USUAL, tmp_path)
    assert (run.extent, run.extents) == (USUAL, {})
    assert run.written is not None


def test_a_planned_run_has_the_extents_of_the_plan_and_is_not_quick(tmp_path):
    assert REPORT.run(USUAL, tmp_path, planned=True).extents == {"row": PLANNED}
    with pytest.raises(typer.BadParameter, match="extent of its own"):
        REPORT.run(USUAL, tmp_path, quick=True, planned=True)


def test_the_plan_of_transactions_has_five_rounds_of_each_row():
    assert PLAN.keys() == ROWS.keys()
    assert {extent.rounds for extent in PLAN.values()} == {5}
