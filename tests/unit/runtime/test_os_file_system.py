"""Syncs of whole file systems, where the kernel says what became of them."""

import os
import sys
from pathlib import Path

import pytest

from esp.runtime.os_file_system import FILE_SYSTEMS, SYNCS_MIN, OsFileSystem, magic_number, reports_errors


@pytest.mark.parametrize("release", ["5.8", "5.8.0-63-generic", "5.10.226", "6.18.44-fc", "10.0.0"])
def test_linux_reports_failed_write_backs_since_5_8(release: str) -> None:
    assert reports_errors("linux", release)


@pytest.mark.parametrize(
    ("platform", "release"),
    [("linux", "5.7.19"), ("linux", "4.19.0-26"), ("linux", "6"), ("linux", "next-1.2"), ("darwin", "24.1.0")],
)
def test_no_other_kernel_is_relied_on(platform: str, release: str) -> None:
    assert not reports_errors(platform, release)


@pytest.mark.skipif(sys.platform != "linux", reason="there is no such call")
def test_the_kind_of_a_file_system_is_known() -> None:
    fd = os.open("/proc", os.O_RDONLY)
    try:
        assert magic_number(fd) == 0x9FA0
        assert magic_number(fd) not in FILE_SYSTEMS
    finally:
        os.close(fd)
    assert magic_number(-1) == 0


@pytest.mark.skipif(sys.platform != "linux", reason="there is no such call")
def test_a_file_system_of_which_nothing_is_known_is_synced_file_by_file() -> None:
    file_system = OsFileSystem("/proc")
    assert not file_system.is_quicker_than(SYNCS_MIN)
    file_system.close()


def test_few_syncs_are_done_one_by_one(tmp_path: Path) -> None:
    file_system = OsFileSystem(str(tmp_path))
    assert not file_system.is_quicker_than(SYNCS_MIN - 1)
    file_system.close()


@pytest.mark.skipif(sys.platform != "linux", reason="there is no such call")
def test_a_sync_that_failed_is_not_repeated(tmp_path: Path) -> None:
    file_system = OsFileSystem(str(tmp_path))
    file_system.sync_blocking()
    other = os.open(tmp_path, os.O_RDONLY)
    os.close(file_system._fd)
    with pytest.raises(OSError, match=str(tmp_path)):
        file_system.sync_blocking()
    os.dup2(other, file_system._fd)
    with pytest.raises(OSError, match=str(tmp_path)):
        file_system.sync_blocking()
    file_system.close()
    os.close(other)
