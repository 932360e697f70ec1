"""Answers of the transaction coordinator as versions of the wire have them."""

from typing import Final

from esp.model.errors import ErrorCode

FENCED_FROM: Final = 2
"""The first version of AddPartitionsToTxn, AddOffsetsToTxn and EndTxn that knows PRODUCER_FENCED (KIP-588)."""


def for_version(error: ErrorCode, version: int, fenced_from: int = FENCED_FROM) -> ErrorCode:
    """The error as clients of a version know it: INVALID_PRODUCER_EPOCH for PRODUCER_FENCED in old ones.

    Args:
        error: the coordinator's.
        version: of the request.
        fenced_from: the first version of the API that knows PRODUCER_FENCED.
    """
    is_unknown = error is ErrorCode.producer_fenced and version < fenced_from
    return ErrorCode.invalid_producer_epoch if is_unknown else error
