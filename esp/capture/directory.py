"""The directory of a capture: of this machine, or of one of pyarrow's file systems (``s3://``, ``gs://``, ``hdfs://``).

Files are durable before they are committed, and their names are durable before the next file of their partition is. On an object store a
file is durable when it is closed, and gets its name by a copy.
"""

import json
import os
import secrets
from collections.abc import Collection
from pathlib import PurePosixPath
from typing import IO, Any, Final

import pyarrow.parquet as pq
from pyarrow import fs

from esp.capture.file_names import WORK_DIRECTORY, FileName, parse_path
from esp.consumer.errors import ConsumerError

TABLE_LOG: Final = "_delta_log"
"""The directory below a topic's that makes a Delta table of it; readers of plain files pass over it."""
_OWNER_FILE: Final = "_capture.json"
_OWNER: Final = "capture"


class Directory:
    """A directory. Paths of its methods are relative to it.

    Args:
        place: a path, or a URL.

    Raises:
        ConsumerError: there is no such file system here.
    """

    def __init__(self, place: str) -> None:
        self.place = place
        try:
            system, root = (
                fs.FileSystem.from_uri(place) if "://" in place else (fs.LocalFileSystem(), os.path.abspath(place))
            )
        except (OSError, ValueError) as error:
            raise ConsumerError(f"--to {place}: {error}: name a directory, or a URL that pyarrow knows") from error
        self._system: Any = system
        self._root = root.rstrip("/")
        self._is_local = isinstance(system, fs.LocalFileSystem)

    def read_owner(self) -> str | None:
        """See :class:`~esp.capture.claim.Store`.

        Raises:
            ConsumerError: the file that has the name was changed.
        """
        if not self.has(_OWNER_FILE):
            return None
        with self._system.open_input_stream(self._full(_OWNER_FILE)) as stream:
            text = stream.read()
        try:
            owner = json.loads(text)[_OWNER]
        except (ValueError, TypeError, KeyError):
            owner = None
        if not isinstance(owner, str):
            raise ConsumerError(
                f'{self.place}/{_OWNER_FILE}: it names no capture: restore it, as {{"{_OWNER}": "NAME"}}'
            )
        return owner

    def write_owner(self, name: str) -> None:
        """See :class:`~esp.capture.claim.Store`."""
        work = f"{WORK_DIRECTORY}/owner-{secrets.token_hex(8)}"
        with self.open_output(work) as stream:
            stream.write(json.dumps({_OWNER: name}).encode() + b"\n")
        self.make_durable(work)
        self.publish(work, _OWNER_FILE)

    def has_files(self) -> bool:
        """See :class:`~esp.capture.claim.Store`."""
        return bool(self.topics())

    def names_of(self, topic: str) -> list[FileName]:
        """Return the names of a topic's files, in order."""
        return sorted(name for name in map(parse_path, self._paths(topic)) if name is not None)

    def topics(self) -> list[str]:
        """Return the topics that have files, in order."""
        return sorted({name.partition.topic for name in map(parse_path, self._paths(".")) if name is not None})

    def has_table(self, topic: str) -> bool:
        """True if a topic's files are a Delta table."""
        return bool(self._paths(f"{topic}/{TABLE_LOG}"))

    def list_work(self) -> Collection[str]:
        """See :class:`~esp.capture.claim.Store`."""
        return [*self._paths(WORK_DIRECTORY)]

    def has(self, path: str) -> bool:
        """See :class:`~esp.capture.claim.Store`."""
        return bool(self._system.get_file_info(self._full(path)).type == fs.FileType.File)

    def size_of(self, path: str) -> int:
        """Return the size of a file in bytes."""
        return int(self._system.get_file_info(self._full(path)).size)

    def publish(self, work: str, path: str) -> bool:
        """See :class:`~esp.capture.claim.Store`."""
        self._make(str(PurePosixPath(path).parent))
        try:
            self._system.move(self._full(work), self._full(path))
        except OSError:
            if self.has(work):
                raise
            return False
        if self._is_local:
            for above in PurePosixPath(path).parents:
                _sync(self._full(str(above)))
            _sync(self._full(WORK_DIRECTORY))
        return True

    def remove(self, path: str) -> None:
        """See :class:`~esp.capture.claim.Store`."""
        try:
            self._system.delete_file(self._full(path))
        except OSError:
            if self.has(path):
                raise

    def open_output(self, path: str) -> IO[bytes]:
        """Open a file to write it from its beginning."""
        self._make(str(PurePosixPath(path).parent))
        stream: IO[bytes] = self._system.open_output_stream(self._full(path))
        return stream

    def make_durable(self, path: str) -> None:
        """Return when a closed file survives the end of the machine."""
        if self._is_local:
            _sync(self._full(path))
            _sync(os.path.dirname(self._full(path)))

    def open_parquet(self, path: str) -> pq.ParquetFile:
        """Open a file to read it."""
        return pq.ParquetFile(self._system.open_input_file(self._full(path)))

    def uri(self, path: str) -> str:
        """Return where a file is, for other programs."""
        return f"{self.place.rstrip('/')}/{path}" if "://" in self.place else self._full(path)

    def _paths(self, directory: str) -> list[str]:
        """The paths of all files below a directory."""
        selector = fs.FileSelector(self._full(directory), recursive=True, allow_not_found=True)
        start = len(self._root) + 1
        return [info.path[start:] for info in self._system.get_file_info(selector) if info.type == fs.FileType.File]

    def _make(self, directory: str) -> None:
        if self._is_local or directory == ".":  # an object store has no directories to make
            self._system.create_dir(self._full(directory), recursive=True)

    def _full(self, path: str) -> str:
        return self._root if path == "." else f"{self._root}/{path}"


def _sync(path: str) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
