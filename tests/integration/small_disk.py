"""A small file system in memory, which a test can fill."""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from esp.testing.pytest_plugin import skip_or_fail


@contextlib.contextmanager
def mounted(path: Path, size: str) -> Iterator[Path]:
    """A directory, made here, with ``size`` bytes of room of its own (``32m``); without the right to mount the test is skipped."""
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        skip_or_fail("file systems cannot be mounted here, so none can be full")
    try:
        yield path
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)


def fill(path: Path) -> None:
    """Let a file take all the room that is left where it stands."""
    with contextlib.suppress(OSError), path.open("ab", buffering=0) as filler:
        for size in (65_536, 512):
            with contextlib.suppress(OSError):
                while True:
                    filler.write(bytes(size))
