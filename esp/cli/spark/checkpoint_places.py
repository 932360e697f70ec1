"""The places of checkpoints: directories of this machine, and URLs of pyarrow's file systems (``s3://``, ``hdfs://``, ``gs://``)."""

import os
import shutil
from pathlib import Path
from typing import Any

from esp.checkpoints.checkpoint_files import CheckpointFiles, Listed
from esp.model.errors import OperatorError


def open_files(place: str) -> CheckpointFiles:
    """Return the files of a checkpoint.

    Args:
        place: a path, or a URL.

    Raises:
        OperatorError: there is no such file system here.
    """
    if "://" not in place:
        return LocalFiles(place)
    try:
        from pyarrow import fs
    except ImportError as error:
        raise OperatorError(
            f"{place}: URLs need the package pyarrow", 'Install it: pip install "esp[spark]"'
        ) from error
    try:
        system, path = fs.FileSystem.from_uri(place)
    except (OSError, ValueError) as error:
        raise OperatorError(f"{place}: {error}", "Name a directory, or a URL that pyarrow knows.") from error
    return ArrowFiles(place, system, path)


class LocalFiles:
    """A directory of this machine."""

    def __init__(self, place: str) -> None:
        self.place = place
        self._root = Path(place)

    def list(self, directory: str) -> list[Listed]:
        """See :class:`CheckpointFiles`."""
        try:
            entries = [*os.scandir(self._root / directory)]
        except FileNotFoundError:
            return []
        return [Listed(entry.name, entry.is_dir(), entry.stat().st_mtime) for entry in entries]

    def read(self, path: str) -> str:
        """See :class:`CheckpointFiles`."""
        return (self._root / path).read_text(encoding="utf-8")

    def replace(self, path: str, text: str) -> None:
        """See :class:`CheckpointFiles`. Hadoop's checksum of the file goes: Spark reads a file that has none."""
        target = self._root / path
        beside = target.with_name(f".{target.name}.new")
        with open(beside, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        target.with_name(f".{target.name}.crc").unlink(missing_ok=True)
        beside.replace(target)

    def copy(self, suffix: str) -> str:
        """See :class:`CheckpointFiles`."""
        target = f"{self._root}{suffix}"
        shutil.copytree(self._root, target)
        return target


class ArrowFiles:
    """A directory of one of pyarrow's file systems."""

    def __init__(self, place: str, system: Any, path: str) -> None:
        self.place = place
        self._system = system
        self._root = path.rstrip("/")

    def list(self, directory: str) -> list[Listed]:
        """See :class:`CheckpointFiles`."""
        from pyarrow import fs

        selector = fs.FileSelector(f"{self._root}/{directory}".rstrip("/"), allow_not_found=True)
        return [
            Listed(info.base_name, info.type == fs.FileType.Directory, info.mtime and info.mtime.timestamp())
            for info in self._system.get_file_info(selector)
        ]

    def read(self, path: str) -> str:
        """See :class:`CheckpointFiles`."""
        with self._system.open_input_stream(f"{self._root}/{path}") as stream:
            text: str = stream.read().decode()
            return text

    def replace(self, path: str, text: str) -> None:
        """See :class:`CheckpointFiles`. An object store takes the text as a whole; elsewhere the copy of before counts if it fails."""
        with self._system.open_output_stream(f"{self._root}/{path}") as stream:
            stream.write(text.encode())

    def copy(self, suffix: str) -> str:
        """See :class:`CheckpointFiles`."""
        from pyarrow import fs

        target = f"{self._root}{suffix}"
        if self._system.get_file_info(target).type != fs.FileType.NotFound:
            raise FileExistsError(target)
        fs.copy_files(self._root, target, source_filesystem=self._system, destination_filesystem=self._system)
        return f"{self.place.rstrip('/')}{suffix}"
