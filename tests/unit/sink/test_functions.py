import builtins
import pickle
import sys

import pytest

from esp.sink.functions import TaskFunction
from tests.unit.sink.test_rows import ORDER, batch_of


def test_work_travels_to_another_process() -> None:
    function = pickle.loads(pickle.dumps(TaskFunction("place_rows", ORDER)))
    [placed] = function([batch_of([(b"a", b"1", 3)], names_partitions=True)])
    assert placed.column("esp_target").to_pylist() == [3]


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
