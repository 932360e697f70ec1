import builtins
import pickle
import sys
import zipfile
from zipimport import zipimporter

import pytest

from esp.executor.worker_process import FixedImporter
from esp.sink.functions import TaskFunction
from esp.sink.task import place_rows
from tests.unit.sink.test_rows import ORDER, batch_of


def test_work_travels_to_another_process() -> None:
    function = pickle.loads(pickle.dumps(TaskFunction("place_rows", ORDER)))
    [placed] = function([batch_of([(b"a", b"1", 3)], names_partitions=True)])
    assert placed.column("esp_target").to_pylist() == [3]


@pytest.mark.parametrize("name", ["place_rows", "count_rows"])
def test_the_process_is_made_ready_for_its_next_task_when_all_results_are_taken(
    name: str, tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = str(tmp_path / "lib.zip")
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("module.py", "")
    monkeypatch.setenv("PYTHONPATH", archive)
    monkeypatch.setitem(sys.path_importer_cache, archive, zipimporter(archive))
    rows = batch_of([(b"a", b"1", 3)], names_partitions=True)
    if name == "count_rows":
        [rows] = place_rows([rows], ORDER)
    results = TaskFunction(name, ORDER)([rows])
    assert next(results).num_rows == 1
    assert type(sys.path_importer_cache[archive]) is zipimporter, "the task is not over"
    assert list(results) == []
    assert type(sys.path_importer_cache[archive]) is FixedImporter


def test_a_missing_package_is_named_with_the_python_that_lacks_it(monkeypatch: pytest.MonkeyPatch) -> None:
    imported = builtins.__import__

    def without_pyarrow(name: str, *more: object) -> object:
        if name == "pyarrow":
            raise ModuleNotFoundError("No module named 'pyarrow'", name="pyarrow")
        return imported(name, *more)

    monkeypatch.delitem(sys.modules, "esp.sink.task")
    monkeypatch.setattr(builtins, "__import__", without_pyarrow)
    with pytest.raises(
        ModuleNotFoundError, match=f"the sink needs the package pyarrow, which {sys.executable} on this executor"
    ):
        TaskFunction("write_rows", ORDER)([])
