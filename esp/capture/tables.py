"""The Delta tables of a capture, one for each topic: files with names are added in one commit a round.

A file is added behind its name: the range is committed, the file has its name, and the table lacks it for a moment. A runner that starts
adds what all runners before it have left, since names alone say what was committed.
"""

from collections.abc import Sequence
from itertools import groupby

from esp.capture.decision import RefusedError
from esp.capture.delta_log import DeltaLog
from esp.capture.directory import Directory
from esp.capture.file_names import FileName, parse_path
from esp.capture.table_plan import DAY_COLUMN, ends_of, files_to_add


class Tables:
    """The tables. One thread uses them at a time.

    Args:
        directory: of the capture.
        capture: the capture.
        columns: of files.

    Raises:
        RefusedError: files have a column with the name of the one that says the day.
    """

    def __init__(self, directory: Directory, capture: str, columns: Sequence[str]) -> None:
        if DAY_COLUMN in columns:
            raise RefusedError(
                f"values have a field {DAY_COLUMN}, which is the table's column of the day: leave it out of --value-schema"
            )
        self._directory = directory
        self._capture = capture
        self._logs: dict[str, DeltaLog] = {}
        self._new: list[FileName] = []

    def take(self, topics: Sequence[str]) -> None:
        """Add what the runners before this one have left.

        Args:
            topics: of the capture.

        Raises:
            RefusedError: the table and the files do not fit together.
            ConsumerError: a table cannot be read or written.
        """
        self._new += [name for topic in topics for name in self._directory.names_of(topic)]
        self.publish()

    def note(self, path: str) -> None:
        """Have a file added in the next commit.

        Args:
            path: of a file that has its name.
        """
        name = parse_path(path)
        assert name is not None, "it is a name"
        self._new.append(name)

    def publish(self) -> None:
        """Add all files that were noted, in one commit for each topic.

        Raises:
            As :meth:`take`.
        """
        for topic, names in groupby(sorted(self._new), lambda name: name.partition.topic):
            self._publish(topic, [*names])
        self._new = []

    def _publish(self, topic: str, names: Sequence[FileName]) -> None:
        log = self._logs.get(topic)
        if log is None:
            log = self._logs[topic] = DeltaLog(self._directory, topic)
        partitions = {name.partition for name in names}
        while lacking := files_to_add(names, log.ends(self._capture, partitions)):
            if log.add(self._capture, lacking, ends_of(lacking)):
                return
