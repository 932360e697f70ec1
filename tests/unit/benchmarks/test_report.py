"""The files of a run."""

import json

from benchmarks.chart import draw
from benchmarks.report import markdown, write_files
from benchmarks.results import ESP, IDLE_MEMORY, KAFKA, PRODUCE_USER, REQUEST_RATE, Results

DASH = "\N{EN DASH}"
MACHINE = {"processor": "2 x something"}


def results_of(*brokers: str) -> Results:
    results = Results()
    for broker in brokers:
        factor = 1 if broker == ESP else 10
        results.add(broker, {PRODUCE_USER: 0.2 * factor, REQUEST_RATE: 10_000.0, IDLE_MEMORY: 90.0 * factor})
        results.add(broker, {PRODUCE_USER: 0.25 * factor})
    return results


def test_the_page_has_a_row_for_each_figure_with_spread_ratio_aim_and_verdict():
    page = markdown(results_of(ESP, KAFKA).summaries(), MACHINE, ["one\nnote"]).splitlines()
    rows = [line for line in page if line.startswith("| ")]
    assert (
        rows[2]
        == f"| Produce: user CPU per GB | 0.23 s (0.20{DASH}0.25) | 2.25 s (2.00{DASH}2.50) | 0.10 | 0.25 of Kafka's | met |"
    )
    assert rows[3].startswith(f"| Small requests: rate, 50 connections | 10,000 /s (10,000{DASH}10,000) |")
    assert rows[4].endswith("| 80 MB | missed |")
    assert "- processor: 2 x something" in page
    assert "- one note" in page


def test_a_run_of_one_broker_leaves_the_others_cells_empty():
    page = markdown(results_of(KAFKA).summaries(), MACHINE, [])
    assert f"| Produce: user CPU per GB |  | 2.25 s (2.00{DASH}2.50) |  | 0.25 of Kafka's |  |" in page


def test_the_raw_figures_can_be_read_back(tmp_path):
    page, raw = write_files(results_of(ESP, KAFKA), tmp_path / "new", MACHINE, {"rounds": 2}, [])
    assert page.exists()
    read = json.loads(raw.read_text())
    assert read["values"]["produce_user_s_per_gb"] == {"esp": [0.2, 0.25], "kafka": [2.0, 2.5]}
    assert read["extent"] == {"rounds": 2}
    assert read["machine"] == MACHINE


def test_the_chart_is_a_picture_of_costs_with_a_ratio(tmp_path):
    path = tmp_path / "chart.png"
    assert draw(results_of(ESP, KAFKA).summaries(), path)
    assert path.read_bytes().startswith(b"\x89PNG")


def test_there_is_no_chart_of_one_broker_alone(tmp_path):
    path = tmp_path / "chart.png"
    assert not draw(results_of(ESP).summaries(), path)
    assert not path.exists()
