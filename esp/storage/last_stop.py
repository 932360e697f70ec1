"""The end of this node's last run: the broker epoch under which it ended, if none of its data directories lost anything."""

from collections.abc import Iterable

from esp.model.ids import NO_BROKER_EPOCH, BrokerEpoch
from esp.storage.log_directory import LogDirectory


def previous_broker_epoch(
    directories: Iterable[LogDirectory], boot_id: str, *, trusts_running_markers: bool = True
) -> BrokerEpoch:
    """The broker epoch of the last stop, if it lost nothing: a clean shutdown (REC-2), or the end of the process alone (BRK-3).

    Only if all directories agree about it, else -1.

    Args:
        directories: all that are there.
        boot_id: the id of the machine's last start.
        trusts_running_markers: whether the end of a process alone counts as such a stop (``running.marker.enable``).
    """

    def epoch_of(directory: LogDirectory) -> BrokerEpoch:
        if directory.was_clean:
            return directory.clean_broker_epoch
        return directory.running_marker.survived_epoch(boot_id) if trusts_running_markers else NO_BROKER_EPOCH

    epochs = {epoch_of(directory) for directory in directories}
    return epochs.pop() if len(epochs) == 1 else NO_BROKER_EPOCH
