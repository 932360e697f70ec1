"""The markers of how a data directory was left: by a clean shutdown, or by a process that was killed, and if it was still opening logs.

``.kafka_cleanshutdown`` is the marker of a clean shutdown, with the broker epoch under which it happened (REC-1, REC-2). Beyond Kafka,
which reads past it, it holds the numbers of segments of the logs whose segments need not meet, so that none is lost unseen (REC-11).

The running marker is that of a process that runs on the data directory; by it the next process knows that nothing was lost when that one
was killed (BRK-3). The end of a process, unlike that of its machine, loses nothing that was written: the kernel has it. So a directory that
was left without a clean shutdown is complete, but for a write that was cut off, on two conditions: the machine has been up ever since,
which its boot id shows, and no sync has failed, after which the kernel may have dropped what it could not write. The marker need not
outlast the machine, and is not synced. It names the very file that it stands in: a copy of the directory that was put in its place,
however fresh, is not what the process left. It is written under each broker epoch once the logs were found whole, and removed before any
part of the node learns of a failed sync.

The loading marker is there while a process opens the logs that it found. A process that dies then may have removed files whose removal
is not on the device; nothing is left by which the next process could see that (REC-3). As only the end of a process is meant, the marker is
not synced.
"""

import contextlib
import json
import logging
from collections.abc import Mapping
from typing import Final, NamedTuple

from esp.model.ids import NO_BROKER_EPOCH, BrokerEpoch
from esp.ports.disk import Disk
from esp.storage.disk_reserve import DiskReserve
from esp.storage.layout import CLEAN_SHUTDOWN_FILE, LOADING_FILE, RUNNING_FILE

_logger: Final = logging.getLogger(__name__)


class CleanStop(NamedTuple):
    """A clean shutdown."""

    broker_epoch: BrokerEpoch
    segments: Mapping[str, int]
    """The number of segments by the name of the replica's directory; not of all logs, and of none where Kafka was stopped."""


class RunningMarker:
    """The running marker of one data directory.

    Args:
        disk: where it lives.
        directory: the data directory's path.
    """

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._path = f"{directory}/{RUNNING_FILE}"

    def survived_epoch(self, boot_id: str) -> BrokerEpoch:
        """The broker epoch of a process that ran here since the machine was started with ``boot_id`` and lost nothing; -1 if none did."""
        try:
            content = json.loads(self._disk.read_file(self._path))
            is_left = content["bootId"] == boot_id and content["file"] == self._disk.stat(self._path).identity
            return BrokerEpoch(int(content["brokerEpoch"])) if is_left else NO_BROKER_EPOCH
        except FileNotFoundError:
            pass
        except (OSError, ValueError, KeyError, TypeError) as error:
            _logger.warning("%s cannot be read; the last stop counts as unclean: %s", self._path, error)
        return NO_BROKER_EPOCH

    def write(self, boot_id: str, broker_epoch: BrokerEpoch) -> None:
        """Write the marker: all that the registration with ``broker_epoch`` rests on is in the directory unless the machine ends.

        A device that does not take it is no reason to stop: without it the next start counts as unclean.
        """
        try:
            self._disk.write_file(self._path, b"")
            file = self._disk.stat(self._path).identity
            content = {"version": 0, "brokerEpoch": broker_epoch, "bootId": boot_id, "file": file}
            self._disk.write_file(self._path, json.dumps(content, separators=(",", ":")).encode())
        except OSError as error:
            _logger.warning(
                "%s cannot be written; after a kill the node counts as stopped uncleanly: %s", self._path, error
            )
            self.remove()

    def remove(self) -> None:
        """Remove the marker: the directory's content can no longer be relied on, or there is a better marker."""
        with contextlib.suppress(OSError):  # the device has failed: no process will open logs for writing on it either
            self._disk.remove(self._path)


class LoadingMarker:
    """The loading marker of one data directory.

    Args:
        disk: where it lives.
        directory: the data directory's path.
    """

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._path = f"{directory}/{LOADING_FILE}"
        self._was_left: bool | None = None
        self._is_over = False

    def begin(self) -> bool:
        """Write the marker before a log is opened; True if the names in the log's directory have to be synced before it is used."""
        if self._was_left is None:
            self._was_left = self._disk.exists(self._path)
            try:
                self._disk.write_file(self._path, b"")
            except OSError:  # a full disk keeps no node from its start: the logs are synced one by one
                self._was_left = True
        return self._was_left or self._is_over

    def end(self) -> None:
        """Remove the marker: all logs that were found are open. Logs that are opened later are synced one by one."""
        self._is_over = True
        with contextlib.suppress(OSError):  # the next start takes longer
            self._disk.remove(self._path)


class CleanMarker:
    """The clean shutdown marker of one data directory.

    Args:
        disk: where it lives.
        directory: the data directory's path.
        reserve: room for it.
    """

    def __init__(self, disk: Disk, directory: str, reserve: DiskReserve) -> None:
        self._disk = disk
        self._directory = directory
        self._path = f"{directory}/{CLEAN_SHUTDOWN_FILE}"
        self._reserve = reserve

    def take_blocking(self) -> CleanStop | None:
        """Read and remove it, durably; None if the last shutdown was not clean.

        The directory is synced even if there is none: a start that was cut off may have removed it, and a power loss would bring it back.

        Raises:
            OSError: the device failed.
        """
        stop = None
        if self._disk.exists(self._path):
            try:
                content = json.loads(self._disk.read_file(self._path))
                segments = {str(name): int(count) for name, count in dict(content.get("segments", {})).items()}
                stop = CleanStop(BrokerEpoch(int(content["brokerEpoch"])), segments)
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                _logger.warning("%s cannot be read; the last stop counts as unclean: %s", self._path, error)
            self._disk.remove(self._path)
        self._disk.sync_directory_blocking(self._directory)
        return stop

    def write_blocking(self, stop: CleanStop) -> None:
        """Write the marker: all logs were closed.

        Raises:
            OSError: the device failed or is full: the next start finds an unclean stop.
        """
        content: dict[str, object] = {"version": 0, "brokerEpoch": stop.broker_epoch}
        if stop.segments:
            content["segments"] = stop.segments
        marker = json.dumps(content, separators=(",", ":"))
        self._reserve.write_blocking(lambda: self._disk.replace_file_blocking(self._path, marker.encode()))
