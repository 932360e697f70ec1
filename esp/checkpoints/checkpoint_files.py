"""The file operations that reading and changing a checkpoint take."""

from typing import NamedTuple, Protocol


class Listed(NamedTuple):
    """A file or directory, and the time of its last change in seconds since 1970; None where the file system does not tell."""

    name: str
    is_directory: bool
    changed_s: float | None


class CheckpointFiles(Protocol):
    """The files of one checkpoint. Paths are relative to it. Errors of the file system come as OSError."""

    place: str
    """The directory or URL, for messages."""

    def list(self, directory: str) -> "list[Listed]":
        """The entries of a directory; none if it is not there."""
        ...

    def read(self, path: str) -> str:
        """The text of a file."""
        ...

    def replace(self, path: str, text: str) -> None:
        """Put another text in the place of a file's."""
        ...

    def copy(self, suffix: str) -> str:
        """Copy the checkpoint to a place beside it, whose name is longer by ``suffix``; returns that place.

        Raises:
            FileExistsError: something is there already, and is left as it is.
        """
        ...
