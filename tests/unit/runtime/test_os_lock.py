"""The lock between processes."""

import subprocess
import sys
from pathlib import Path

from esp.runtime.os_disk import take_lock

HOLDER = """
import sys
from esp.runtime.os_disk import take_lock
lock = take_lock(sys.argv[1])
print("held" if lock else "refused", flush=True)
sys.stdin.read()
"""


def test_lock_of_another_process_holds_until_that_process_is_killed(tmp_path: Path) -> None:
    path = str(tmp_path / ".lock")
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        assert take_lock(path) is None
        holder.kill()
        holder.wait()
        lock = take_lock(path)
        assert lock is not None
        lock.release()
        assert not (tmp_path / ".lock").exists()


def test_release_leaves_a_file_alone_that_took_the_name(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    lock = take_lock(str(path))
    assert lock is not None
    path.unlink()
    path.write_bytes(b"another's")
    lock.release()
    assert path.read_bytes() == b"another's"
