"""Every replacement of segments by a compacted one, while it happens: views of replicas read the segments again."""

import contextlib
from collections.abc import Iterator

from esp.storage.compaction.output import CleanedSegment
from esp.storage.segment_files import SegmentFiles
from esp.storage.steps import Syncing


class Replacements:
    """Remembers the logs of which segments are being replaced, and the logs of which some were."""

    def __init__(self) -> None:
        self.count = 0
        """Segments that took the place of others."""
        self.under_way: dict[SegmentFiles, int] = {}
        """The end of the segments that are being replaced, of each log of which some are; one that failed stays."""
        self._ended: dict[SegmentFiles, None] = {}
        self.to_look_at: dict[SegmentFiles, None] = {}
        """The logs of which segments are being replaced, or were and no checker has taken that in yet: mostly none."""

    def take(self, files: SegmentFiles) -> bool:
        """True, once, if segments were replaced."""
        if files not in self.under_way:
            self.to_look_at.pop(files, None)
        return self._ended.pop(files, files) is None

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Look at all logs of this process from outside, until the block ends."""
        replacing = SegmentFiles.replacing

        def watch(files: SegmentFiles, output: CleanedSegment, due_ms: int) -> Syncing[None]:
            self.under_way[files] = output.sources[-1].next_base_offset
            self.to_look_at[files] = None
            yield from replacing(files, output, due_ms)
            del self.under_way[files]
            self._ended[files] = None
            self.count += 1

        SegmentFiles.replacing = watch  # type: ignore[method-assign, assignment]  # of the class
        try:
            yield
        finally:
            SegmentFiles.replacing = replacing  # type: ignore[method-assign]
