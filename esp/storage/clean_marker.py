"""The marker of an orderly stop of one data directory, ``.kafka_cleanshutdown``: under which broker epoch it was left (REC-1, REC-2)."""

import json
import logging
from typing import Final

from esp.model.ids import BrokerEpoch
from esp.ports.disk import Disk
from esp.storage.disk_reserve import DiskReserve
from esp.storage.layout import CLEAN_SHUTDOWN_FILE

_logger: Final = logging.getLogger(__name__)


class CleanMarker:
    """That of one data directory.

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

    def take_blocking(self) -> BrokerEpoch | None:
        """Read and remove it, durably; None if the last stop was none in order.

        The directory is synced even if there is none: a start that was cut off may have removed it, and a power loss would bring it back.

        Raises:
            OSError: the device failed.
        """
        epoch = None
        if self._disk.exists(self._path):
            try:
                epoch = BrokerEpoch(int(json.loads(self._disk.read_file(self._path))["brokerEpoch"]))
            except (ValueError, KeyError, TypeError) as error:
                _logger.warning("%s cannot be read; the last stop counts as unclean: %s", self._path, error)
            self._disk.remove(self._path)
        self._disk.sync_directory_blocking(self._directory)
        return epoch

    def write_blocking(self, broker_epoch: BrokerEpoch) -> None:
        """All logs were closed under ``broker_epoch``.

        Raises:
            OSError: the device failed or is full: the next start finds an unclean stop.
        """
        marker = json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":"))
        self._reserve.write_blocking(lambda: self._disk.replace_file_blocking(self._path, marker.encode()))
