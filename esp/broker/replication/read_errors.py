"""The error that a client gets when a log cannot be read for it."""

import logging
from typing import Final

from esp.model.errors import ApiError, CorruptionError, ErrorCode

log = logging.getLogger(__name__)

READ_ERRORS: Final = (ApiError, CorruptionError, OSError)
"""The errors of a read of a log: a refusal, broken bytes, a failing device. One broken log must not take the others with it."""


def code_of(error: ApiError | CorruptionError | OSError) -> ErrorCode:
    """Kafka's code for an error of :data:`READ_ERRORS`; what is not the client's fault is logged."""
    if isinstance(error, ApiError):
        return error.code
    log.error("a log cannot be read: %s", error)
    return ErrorCode.corrupt_message if isinstance(error, CorruptionError) else ErrorCode.kafka_storage_error
