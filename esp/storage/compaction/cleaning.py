"""Compaction seen from a log: the part that may be cleaned, beginning a round, putting its results in place, and all of it in one go.

The owner drives a round: it has the passes done in a worker thread or in another process, and replaces segments on the loop, while no
flush, cut or removal of segments of this log is running.
"""

from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Final, NamedTuple

from esp.model.errors import CorruptionError
from esp.records.batch_header import HEADER_SIZE, read_header
from esp.settings.setting import LONG_MAX
from esp.storage.compaction.choice import Cleanable, SegmentFacts, find_cleanable, is_worth_cleaning
from esp.storage.compaction.output import CleanedSegment
from esp.storage.compaction.round import CleanerLimits, RoundCounts, RoundPlan, RoundStep, cleaning_blocking
from esp.storage.log import Log
from esp.storage.segment import Segment, noted_timestamp
from esp.storage.steps import Reading, Syncing, read_blocking, sync_blocking
from esp.storage.transaction_index import AbortedTransaction

DEFAULT_LIMITS: Final = CleanerLimits(map_bytes=128 * 1024 * 1024, chunk_bytes=256 * 1024)
"""Kafka's defaults, for one thread."""


def cleanable_part(log: Log, now_ms: int) -> Cleanable:
    """The part of a log that may be cleaned now: flushed, committed, decided, and not in the active segment (CLEAN-1).

    Only what was flushed is cleaned, so that a power loss never leaves a gap that looks like one of compaction. Raises OSError.
    """
    sealed = [
        SegmentFacts(segment.base_offset, segment.next_base_offset, segment.size, _age_of(segment, log))
        for segment in log.files.segments
        if segment.next_base_offset != LONG_MAX
    ]
    return find_cleanable(
        sealed,
        log.settings,
        now_ms=now_ms,
        cleaned_to=log.cleaned_to,
        log_start_offset=log.log_start_offset,
        log_end_offset=log.log_end_offset,
        bound=min(log.last_stable_offset, log.recovery_point, log.sealed_end_offset),
    )


def _age_of(segment: Segment, log: Log) -> int:
    return segment.age_reference_ms() if log.settings.min_compaction_lag_ms else segment.max_timestamp


class Dirt(NamedTuple):
    """The part of a log that may be cleaned now, and whether that is worth a round."""

    cleanable: Cleanable
    is_due: bool


def may_be_cleaned(log: Log) -> bool:
    """False for a log that is not compacted, cannot be, or has no segment but the active one: most internal topics' logs, for long."""
    return log.settings.is_compacted and len(log.files.segments) > 1 and not log.is_offline and log.rot is None


def finding_dirt(log: Log, now_ms: int) -> Reading[Dirt | None]:
    """Look for what may be cleaned now; None unless :func:`may_be_cleaned`.

    Raises:
        OSError: the device failed.
    """
    settings = log.settings
    if not may_be_cleaned(log):
        return None
    cleanable = cleanable_part(log, now_ms)
    oldest_ms = -1
    if settings.max_compaction_lag_ms != LONG_MAX:
        for segment in log.files.segments:
            if cleanable.start < segment.next_base_offset <= cleanable.end and segment.size:
                header = yield segment.file, 0, HEADER_SIZE
                first_ms = noted_timestamp(read_header(header))
                oldest_ms = first_ms if oldest_ms < 0 else min(oldest_ms, first_ms) if first_ms >= 0 else oldest_ms
    return Dirt(cleanable, is_worth_cleaning(cleanable, settings, now_ms=now_ms, oldest_ms=oldest_ms))


def preparing(log: Log) -> Syncing[None]:
    """Bring the names of a log's files to the device, if they may not be there, before a round writes the first ``*.cleaned`` (CLEAN-7).

    The process before this one may have ended when it had completed a swap, and before the sync of its names, and the sync at this one's
    start may have failed. What a power loss brought back of that swap would count as undecided beside a new ``*.cleaned``, and its sources
    are gone.

    No flush, cut or removal of segments of this log may be running.

    Raises:
        OSError: the device failed: the log is offline.
    """
    try:
        yield from log.files.unsynced.syncing_names()
    except OSError:
        log.take_offline()
        raise


def are_present(log: Log, output: CleanedSegment) -> bool:
    """True if the sources of a cleaned segment are still in the log."""
    segments = log.files.segments
    number = segments.floor(output.sources[0].base_offset)
    present = (segments[place] for place in range(number, min(len(segments), number + len(output.sources))))
    return [*present] == [*output.sources]


def replacing(log: Log, output: CleanedSegment, now_ms: int) -> Syncing[None]:
    """Let a cleaned segment take the place of its sources, which are there (:func:`are_present`). Readers go on with the bytes they hold.

    No flush, cut or removal of segments of this log may be running.

    Raises:
        OSError: the device failed: the log is offline, and the next start completes what was begun.
    """
    try:
        yield from log.files.replacing(output, now_ms + log.settings.file_delete_delay_ms)
    except OSError:
        log.take_offline()
        raise


class LogRound:
    """A round, seen from its log; made and asked on the loop, unless a method says otherwise.

    Args:
        log: the log.
        cleanable: the part that is dirty.
        limits: the limits of memory.
        now_ms: wall time.
        aborted: the aborted transactions below the end of that part.
    """

    def __init__(
        self,
        log: Log,
        cleanable: Cleanable,
        limits: CleanerLimits,
        now_ms: int,
        aborted: Sequence[AbortedTransaction] = (),
    ) -> None:
        self.log = log
        self.plan = RoundPlan(
            [segment for segment in log.files.segments if segment.next_base_offset <= cleanable.end],
            log.settings,
            cleanable,
            limits,
            now_ms,
            aborted,
            producers={
                producer_id: tuple(batch.last_offset for batch in state.batches)
                for producer_id, state in log.producers.items()
            },
            markers={
                producer_id: state.marker_offset
                for producer_id, state in log.producers.items()
                if state.marker_offset >= 0
            },
        )
        self.counts = RoundCounts()
        self.end_offset = cleanable.start
        """The end of the part whose keys are known."""
        self.cleaned_to = cleanable.start
        """The end of the part that is clean once the round has ended."""
        self._left_from = LONG_MAX
        self._truncations = log.truncations
        self._sources = {segment.base_offset: segment for segment in self.plan.segments}

    @property
    def is_void(self) -> bool:
        """True if the log was cut, or has failed or rotted, since the round began: nothing of it may be replaced any more."""
        log = self.log
        return log.truncations != self._truncations or log.is_offline or log.rot is not None

    def take(self, step: RoundStep) -> None:
        """Take in a step, of this process or of another one, which knows copies of the log's segments.

        Raises:
            FileNotFoundError: a segment is missing that was not dropped.
        """
        if step.missing_to > self.log.log_start_offset:
            raise FileNotFoundError(f"the segment that ends at offset {step.missing_to} is missing")
        self.counts, self.end_offset = step.counts, step.end_offset
        self.cleaned_to = min(step.cleaned_to, max(self.plan.cleanable.start, self._left_from))
        if step.output is not None:
            step.output.sources = [self._sources[source.base_offset] for source in step.output.sources]

    def note_dropped(self, output: CleanedSegment) -> None:
        """A source was dropped meanwhile: those that are left of its group are cleaned in the next round."""
        self._left_from = min(self._left_from, output.segment.base_offset)

    def remove_leftovers_blocking(self) -> None:
        """Remove the files of a round that ended early, once it writes no more; may be called off the loop. Raises OSError."""
        for segment in self.plan.segments:
            CleanedSegment(self.log.files.disk, (segment,)).remove_blocking()


def clean_blocking(
    log: Log, now_ms: int, limits: CleanerLimits = DEFAULT_LIMITS, between: Callable[[], None] = lambda: None
) -> RoundCounts | None:
    """Do a whole round on the calling thread, if one is due; ``between`` is called between its steps.

    Raises:
        CorruptionError: a batch has rotted, which the log was told.
        OSError: the device failed or is full.
    """
    dirt = read_blocking(finding_dirt(log, now_ms))
    if dirt is None or not dirt.is_due:
        return None
    cleanable = dirt.cleanable
    sync_blocking(preparing(log), log.files.disk)
    cleaning: LogRound | None = None
    try:
        aborted = log.aborted.find_blocking(log.first_segment_offset, cleanable.end) if log.aborted.may_exist else ()
        cleaning = LogRound(log, cleanable, limits, now_ms, aborted)
        if _clean_blocking(cleaning, now_ms, between):
            log.note_cleaned(cleaning.cleaned_to)
        else:
            cleaning.remove_leftovers_blocking()
    except (CorruptionError, OSError) as error:
        if cleaning is not None:
            cleaning.remove_leftovers_blocking()
        if isinstance(error, CorruptionError):
            log.note_rot(error)
        raise
    return cleaning.counts


def _clean_blocking(cleaning: LogRound, now_ms: int, between: Callable[[], None]) -> bool:
    """Both passes; False if the round is void."""
    log = cleaning.log
    with closing(cleaning_blocking(log.files.disk, cleaning.plan, 1)) as steps:
        for step in steps:
            between()
            if cleaning.is_void:
                return False
            cleaning.take(step)
            output = step.output
            if output is None:
                continue
            if are_present(log, output):
                sync_blocking(replacing(log, output, now_ms), log.files.disk)
            else:
                cleaning.note_dropped(output)
                output.remove_blocking()
    return True
