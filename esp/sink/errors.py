"""Ends of an attempt to write that another attempt may not have. Users do not see them."""


class BeginAnewError(Exception):
    """The producer was fenced, a broker moved or did not answer, or a transaction is not known any more; the text is the reason."""


class FencedError(BeginAnewError):
    """Another producer of the transactional id has a newer epoch, and may be writing."""


class UnendedError(BeginAnewError):
    """The last transaction of the transactional id is not ended: a partition of it does not take the marker yet."""


class BatchTooLargeError(Exception):
    """A broker takes no batch of that size.

    Args:
        size: the bytes of the batch.
        record_count: its records.
    """

    def __init__(self, size: int, record_count: int) -> None:
        super().__init__(size, record_count)
        self.size = size
        self.record_count = record_count
