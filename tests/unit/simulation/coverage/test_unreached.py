"""The table of what no simulated run enters; that nothing is missing from it is for ``make sim-coverage`` to say."""

import re
from pathlib import Path

import pytest

from esp.simulation.coverage.functions import find_all_functions
from esp.simulation.coverage.report import Seeds, _run
from esp.simulation.coverage.unreached import _REASONS, SELDOM, UNREACHED
from esp.simulation.tiers import LOG, NODES, PARTITION, QUORUM

ROOT = Path(__file__).resolve().parents[4]


def test_every_function_of_the_table_is_there_and_stands_in_it_once():
    functions = frozenset(find_all_functions())
    assert [name for name in (*UNREACHED, *SELDOM) if name not in functions] == []
    assert sum(map(len, _REASONS.values())) == len(UNREACHED)


@pytest.mark.parametrize("tier", [NODES, PARTITION, QUORUM, LOG])
def test_no_reason_outlives_itself(tier):
    result = _run(Seeds(tier, tuple(range(1, 3 if tier == NODES else 11))))
    assert result["violations"] == {}
    assert len(result["entered"]) > 50
    assert [name for name in result["entered"] if name in UNREACHED] == []


def test_every_test_that_a_reason_names_is_there():
    named = [path for reason in _REASONS for path in re.findall(r"tests/[\w/.]+\w", reason)]
    assert len(named) >= len(_REASONS)
    assert [path for path in named if not (ROOT / path).exists()] == []
