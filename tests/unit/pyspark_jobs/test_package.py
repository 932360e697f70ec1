import ast
from pathlib import Path

import pytest

import pyspark_jobs

MODULES = [path for path in sorted(Path(pyspark_jobs.__file__).parent.glob("*.py")) if path.stem != "with_esp"]


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.stem)
def test_no_job_imports_esp(module: Path) -> None:
    imported = set()
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add(node.module or "")
    assert not [name for name in imported if name.split(".")[0] == "esp"]
