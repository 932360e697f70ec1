"""Spark's worker processes are made ready for their next tasks."""

import importlib
import socket
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median
from zipimport import zipimporter

import pyspark.daemon
import pytest

from esp.executor.worker_process import FixedImporter, acknowledge_soon, find_connection, fix_importers

TASKS = 21
PIECES = (14_700, 760)
"""The two pieces in which Spark's JVM sends a task, in bytes."""
ANSWER = 38_000
DELAY_S = 0.04
"""Linux's delay of an acknowledgement."""


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


@contextmanager
def connected() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Two ends of a connection over loopback, with Nagle's algorithm."""
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as jvm,
        server.accept()[0] as process,
    ):
        yield jvm, process


def wait_for_second_pieces(after_answer: Callable[[socket.socket], object]) -> list[float]:
    """Do tasks as Spark's Python processes do, and return how long each waited for the second piece of its task.

    Args:
        after_answer: called behind the answer of each task.
    """

    def send_tasks(jvm: socket.socket) -> None:
        for _ in range(TASKS):
            for size in PIECES:
                jvm.sendall(bytes(size))
            jvm.recv(ANSWER, socket.MSG_WAITALL)

    waited = []
    with connected() as (jvm, process):
        sending = threading.Thread(target=send_tasks, args=(jvm,))
        sending.start()
        for _ in range(TASKS):
            process.recv(PIECES[0], socket.MSG_WAITALL)
            begun = time.perf_counter()
            process.recv(PIECES[1], socket.MSG_WAITALL)
            waited.append(time.perf_counter() - begun)
            process.sendall(bytes(ANSWER))
            after_answer(process)
        sending.join()
    return waited


@pytest.mark.skipif(not hasattr(socket, "TCP_QUICKACK"), reason="Linux has the delay, and the option against it")
def test_no_task_waits_until_its_first_piece_is_acknowledged():
    waited = wait_for_second_pieces(lambda process: acknowledge_soon(process, "stop", {"generation": 2}))
    assert median(waited) < DELAY_S / 2


def test_a_connection_that_has_ended_is_passed_over():
    with connected() as (_, process):
        process.close()
        acknowledge_soon(process, "stop", {"generation": 2})


def test_the_connection_is_that_of_the_task():
    def worker(sock, authenticated):
        return next(find_connection() for _ in [authenticated])  # a generator, as the work of a task is

    with connected() as (_, process):
        assert worker(process, False) is process
    assert find_connection() is None
    with socket.socket(socket.AF_UNIX) as without_tcp:
        assert worker(without_tcp, False) is None


def test_pyspark_has_the_connection_under_that_name():
    assert pyspark.daemon.worker.__code__.co_varnames[0] == "sock"
