"""The journal beside a plan's file: lines that are only ever added, each on the device before anything rests on it.

The process that carries the plan out holds the journal's lock; a process that only gives an order adds a line, which the holder of the lock
reads. The lock ends with the process that holds it, for whatever reason, and is known on one machine only.
"""

import fcntl
import os
from types import TracebackType
from typing import Self

from esp.model.errors import OperatorError
from esp.rebalance.journal_entries import Entry, History, decode_entries, encode_entry


def journal_path(plan_path: str) -> str:
    """The path of a plan's journal."""
    return f"{plan_path}.journal"


class Journal:
    """A process's view of a plan's journal. A context manager; :attr:`history` holds what :meth:`catch_up` has read.

    Args:
        plan_path: the file of the plan that it belongs to.
        plan_id: the id of that plan.

    Raises:
        OperatorError: on entry: it cannot be opened, or belongs to another plan.
    """

    def __init__(self, plan_path: str, plan_id: str) -> None:
        self.path = journal_path(plan_path)
        self.history = History()
        self._plan_id = plan_id
        self._fd = -1
        self._read_bytes = 0
        self._is_torn = False

    def __enter__(self) -> Self:
        try:
            self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        except OSError as error:
            raise OperatorError(
                f"the journal {self.path} cannot be opened: {error.strerror}",
                "Copy the plan to a directory that you can write to.",
            ) from error
        self.catch_up()
        if self.history.plan_id not in (None, self._plan_id):
            os.close(self._fd)
            raise OperatorError(
                f"the journal {self.path} belongs to another plan",
                "Give the plan a name of its own, or move that journal away.",
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._fd)

    def lock(self) -> bool:
        """Take the lock, to carry the plan out; False if another process of this machine has it."""
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def catch_up(self) -> None:
        """Read the entries added by any process since the last call. A line that is still being written is read the next time."""
        content = b""
        while chunk := os.pread(self._fd, 1 << 20, self._read_bytes + len(content)):
            content += chunk
        whole = content.rfind(b"\n") + 1
        for entry in decode_entries(content[:whole]):
            self.history.add(entry)
        self._read_bytes += whole
        self._is_torn = whole < len(content)

    def add(self, *entries: Entry) -> None:
        """Write entries; they are on the device when this returns.

        Raises:
            OperatorError: it cannot be written.
        """
        self.catch_up()
        lines = b"".join(map(encode_entry, entries))
        if self._is_torn:
            lines = b"\n" + lines
        try:
            while lines:  # a device that fills up takes a part first
                lines = lines[os.write(self._fd, lines) :]
            os.fsync(self._fd)
        except OSError as error:
            raise OperatorError(
                f"the journal {self.path} cannot be written: {error.strerror}",
                "Nothing was changed since then; fix the cause, then resume the plan.",
            ) from error
        self.catch_up()
