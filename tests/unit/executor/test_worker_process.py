"""Spark's worker processes are made ready for their next tasks."""

import importlib
import sys
import zipfile
from zipimport import zipimporter

import pytest

from esp.executor.worker_process import FixedImporter, fix_importers


def write_archive(path, **modules):
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in modules.items():
            archive.writestr(f"archived_package/{name}.py", text)
    return str(path)


@pytest.fixture
def archive(tmp_path, monkeypatch):
    """The path of an archive from which a package was imported, as pyspark is on executors."""
    path = write_archive(tmp_path / "lib.zip", __init__="", early="", late="NAME = 'late'")
    monkeypatch.syspath_prepend(path)
    importlib.import_module("archived_package.early")
    yield path
    for name in [name for name in sys.modules if name.startswith("archived_package")]:
        del sys.modules[name]


def test_the_table_of_an_archive_is_not_read_again(archive, monkeypatch):
    fix_importers([archive], sys.path_importer_cache)
    of_archive = [importer for path, importer in sys.path_importer_cache.items() if path.startswith(archive)]
    assert [type(importer) for importer in of_archive] == [FixedImporter] * 2, (
        "of the archive, and of the package in it"
    )
    read_again = []

    def read_table(importer):
        read_again.append(importer)

    monkeypatch.setattr(zipimporter, "invalidate_caches", read_table)
    zipimporter(archive).invalidate_caches()
    assert read_again.pop() is not None, "what any other importer does"
    importlib.invalidate_caches()
    assert not set(of_archive).intersection(read_again)


def test_what_was_not_imported_yet_is_still_found(archive):
    fix_importers([archive], sys.path_importer_cache)
    importlib.invalidate_caches()
    assert importlib.import_module("archived_package.late").NAME == "late"


def test_importers_of_other_archives_and_of_directories_stay(archive, tmp_path):
    other = write_archive(tmp_path / "other.zip", module="")
    fixed = FixedImporter(archive)
    cache = {archive: fixed, other: zipimporter(other), "/directory": object(), "/none": None}
    before = dict(cache)
    fix_importers([archive, "/directory", ""], cache)
    assert cache == before
