"""Each script in this folder is played, and says what it said when it was recorded (docs/TESTING.md, "Scenarios")."""

from pathlib import Path
from typing import Final

import pytest

from tests.scenarios.script import find_difference, read_script
from tests.scenarios.verbs.stages import STAGES

SCRIPTS: Final = sorted(Path(__file__).parent.glob("*.txt"))
LINES_MAX: Final = 110
"""Nobody reads a longer script in review."""


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_scenario_ends_as_recorded(path: Path, request: pytest.FixtureRequest) -> None:
    difference = find_difference(path, STAGES, rewrite=request.config.getoption("--rewrite", default=False))
    if difference:
        pytest.fail(difference, pytrace=False)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_scenario_is_short_and_says_what_to_look_for(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    script = read_script(path.name, text)
    assert path.stem.startswith(f"{script.area}_")
    assert any("ook " in line for line in script.blocks[0].prose[1:]), "prose below the title says what to look for"
    assert len(text.splitlines()) <= LINES_MAX


def test_every_area_has_a_scenario() -> None:
    assert {read_script(path.name, path.read_text(encoding="utf-8")).area for path in SCRIPTS} == set(STAGES)
