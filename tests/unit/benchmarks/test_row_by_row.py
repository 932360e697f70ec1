import io
import json

from rich.console import Console

from benchmarks.results import Metric
from benchmarks.row_by_row import RowByRow
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


def test_the_plan_of_transactions_has_five_rounds_of_each_row():
    assert PLAN.keys() == ROWS.keys()
    assert {extent.rounds for extent in PLAN.values()} == {5}
