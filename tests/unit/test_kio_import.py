import subprocess
import sys

import pytest


def run(code):
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.parametrize("module", ["esp.model.errors", "esp.raft", "esp.protocol.messages", "esp.schemas"])
def test_no_module_of_ours_loads_hypothesis_by_way_of_kio(module):
    run(f"import sys, {module}; assert 'hypothesis' not in sys.modules; assert 'kio.static.primitive' in sys.modules")


def test_hypothesis_can_be_imported_afterwards():
    run("import esp, hypothesis; hypothesis.given")


def test_kio_registers_its_strategies_where_hypothesis_was_there_first():
    run("import hypothesis, esp; from kio.static import _phantom; assert _phantom.hypothesis is not None")
