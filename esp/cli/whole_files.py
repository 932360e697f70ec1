"""Files that the tools write: each is there as a whole or not at all, also after a loss of power."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from esp.model.errors import OperatorError

SECRET: Final = 0o600
"""Only the owner may read the file."""
PUBLIC: Final = 0o644


def write_whole_blocking(path: Path, data: bytes, mode: int) -> None:
    """Write a file: beside its place, synced, then renamed.

    Args:
        path: its place.
        data: what is in it.
        mode: its permissions, from the first byte on.

    Raises:
        OperatorError: it cannot be written.
    """
    beside = path.with_name(f".{path.name}.new")
    try:
        with suppress(FileNotFoundError):
            beside.unlink()  # left by a command that was ended
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with open(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        beside.replace(path)
    except OSError as error:
        raise unwritable(path, error) from error


def make_private_directory_blocking(path: Path) -> None:
    """Make a directory that only its owner may enter, unless it is there.

    Raises:
        OperatorError: it cannot be made.
    """
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(path, error) from error


def keep_files_private() -> None:
    """Let only the owner read what this process, and those that it starts, write from now on; unless they name other permissions."""
    os.umask(0o077)


def close_directory_blocking(path: Path) -> None:
    """Let only its owner enter a directory, which is made if it is not there.

    A directory of another owner, such as a mount point, stays as it is: permissions of the files in it decide.

    Raises:
        OperatorError: it cannot be made.
    """
    make_private_directory_blocking(path)
    with suppress(PermissionError):
        path.chmod(0o700)


def unwritable(path: Path, error: OSError) -> OperatorError:
    """The error of a file that cannot be written."""
    return OperatorError(f"{path} cannot be written: {error.strerror}", "Name a directory that you may write to.")
