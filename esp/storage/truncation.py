"""Takes away a log's end, or all of it, and whatever the log derived from what is gone (LOG-9, TRUNC-5, TRUNC-6, PROD-9).

The order is what counts: the recovery point and the high watermark go down, durably, before bytes go; and all that is cut is cut on the
device too before the log takes another batch. A failure in between takes the log offline.
"""

import errno

from esp.model.errors import CorruptionError
from esp.storage.log_state import LogState
from esp.storage.producer_snapshots import load_producers_blocking, remove_snapshots
from esp.storage.producer_state import ProducerStates


def truncate_to(log: LogState, offset: int) -> None:
    """See :meth:`esp.storage.log.Log.truncate_to`."""
    if offset >= log.log_end_offset:
        log.leader_epochs.truncate_from_end(log.log_end_offset)
        return
    if offset <= max(log.first_segment_offset, log.log_start_offset):
        truncate_fully_and_start_at(log, offset)
        return
    try:
        _cut(log, offset)
    except OSError:
        log.take_offline()
        raise
    except CorruptionError as error:
        log.take_offline()
        raise OSError(errno.EIO, f"the place to cut cannot be found: {error}", log.path) from error


def truncate_fully_and_start_at(log: LogState, offset: int) -> None:
    """See :meth:`esp.storage.log.Log.truncate_fully_and_start_at`."""
    files = log.files
    # A crash in the midst of it may leave any of the names; none of them is believed then.
    log.lower_recovery_point(0)
    log.lower_high_watermark(min(offset, log.log_start_offset))
    try:
        files.begin_anew(offset, log.settings)
        log.log_start_offset = log.log_end_offset = log.high_watermark = log.recovery_point = offset
        log.leader_epochs.clear()
        files.unsynced.save_epochs_blocking()
        log.producers = ProducerStates()
        remove_snapshots(files.disk, files.path, above=-1, up_to=-1)
        files.unsynced.sync_identity_blocking()
        files.unsynced.sync_names_blocking()
        log.checkpoint_offsets()
    except OSError:
        log.take_offline()
        raise
    log.set_roll_jitter()
    log.check_offsets()


def _cut(log: LogState, offset: int) -> None:
    files = log.files
    place = files.find_cut(offset)
    end_offset = place.end_offset
    assert end_offset <= offset, "nothing at the offset or behind it stays (LOG-9)"
    if end_offset < log.log_start_offset:  # a batch that spans the log start would be cut
        truncate_fully_and_start_at(log, log.log_start_offset)
        return
    log.lower_recovery_point(end_offset)
    log.lower_high_watermark(end_offset)
    files.cut(place)
    log.log_end_offset = end_offset
    log.leader_epochs.truncate_from_end(end_offset)
    files.unsynced.save_epochs_blocking()
    remove_snapshots(files.disk, files.path, above=end_offset, up_to=-1)
    log.producers = load_producers_blocking(files.disk, files.path, files.segments, end_offset, None, 0)
    files.unsynced.sync_names_blocking()
    log.set_roll_jitter()
    log.check_offsets()
