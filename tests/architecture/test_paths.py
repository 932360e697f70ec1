"""Documents and docstrings name modules that are there."""

import re
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]

MADE_UP: Final = {"esp/a/b.py", "tests/unit/a/test_b.py", "test_my_service.py", "job.py"}
"""Paths of examples."""

DOCUMENTS: Final = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "esp").rglob("*.py")])

_MODULE_PATH: Final = re.compile(r"(?<![\w./-])((?:\w+/)*\w+\.py)\b")


@cache
def modules() -> frozenset[str]:
    """The ends of the paths of all modules: ``c.py``, ``b/c.py`` and ``a/b/c.py``."""
    paths = [path.relative_to(ROOT).parts for path in ROOT.rglob("*.py") if ".venv" not in path.parts]
    return frozenset("/".join(parts[start:]) for parts in paths for start in range(len(parts)))


def find_missing(text: str) -> list[str]:
    """The paths of modules in a text that no module has."""
    found = _MODULE_PATH.findall(text.replace("../", ""))
    return [path for path in found if path not in modules() and path not in MADE_UP]


def test_the_modules_that_documents_name_are_there() -> None:
    documents = [path for path in DOCUMENTS if path.name != "CHANGELOG.md"]
    missing = {path.relative_to(ROOT).as_posix(): find_missing(path.read_text(encoding="utf-8")) for path in documents}
    assert {name: paths for name, paths in missing.items() if paths} == {}


def test_a_module_that_is_gone_is_found() -> None:
    assert find_missing("`storage/log.py` and [gone](../broker/quorum/gone.py)") == ["broker/quorum/gone.py"]
