"""How this node ended last: whether whoever wrote to its data directories lost nothing, and under which broker epoch that was."""

from collections.abc import Iterable

from esp.model.ids import NO_BROKER_EPOCH, BrokerEpoch
from esp.storage.log_directory import LogDirectory


def previous_broker_epoch(directories: Iterable[LogDirectory], boot_id: str) -> BrokerEpoch:
    """The broker epoch of the last stop, if it lost nothing: an orderly one (REC-2), or that of the process alone (BRK-3).

    Only if all directories agree about it, else -1.
    """
    epochs = {
        directory.clean_broker_epoch if directory.was_clean else directory.running_marker.survived_epoch(boot_id)
        for directory in directories
    }
    return epochs.pop() if len(epochs) == 1 else NO_BROKER_EPOCH
