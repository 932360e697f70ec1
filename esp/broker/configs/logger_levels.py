"""The levels of this process's loggers, as the BROKER_LOGGER resource of the settings APIs shows and changes them (KIP-412).

Loggers have the names of the modules that log. Levels are Kafka's words; changes last until the process ends.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Final

from esp.controller.configs import ConfigOperation, Operation
from esp.model.errors import ApiError, ErrorCode

ROOT: Final = "root"

_TRACE: Final = 5
_LEVELS: Final[Mapping[str, int]] = {
    "DEBUG": logging.DEBUG,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
    "INFO": logging.INFO,
    "TRACE": _TRACE,
    "WARN": logging.WARNING,
}


def logger_levels() -> dict[str, str]:
    """The level at which each logger works, by its name."""
    return {name: _word(_logger(name).getEffectiveLevel()) for name in sorted(_names())}


def validate_logger_changes(operations: Sequence[ConfigOperation]) -> None:
    """Check changes of levels.

    Raises:
        ApiError: one of them cannot be made, in Kafka's words.
    """
    known = _names()
    for name, operation, level in operations:
        if operation not in (Operation.SET, Operation.DELETE):
            raise ApiError(
                ErrorCode.invalid_request,
                f"{operation.name} operation is not allowed for the BROKER_LOGGER resource",
            )
        if name not in known:
            raise ApiError(ErrorCode.invalid_config, f"Logger {name} does not exist!")
        if operation is Operation.SET and level not in _LEVELS:
            raise ApiError(
                ErrorCode.invalid_config,
                f"Cannot set the log level of {name} to {level} as it is not a supported log level. Valid log levels are "
                f"{', '.join(_LEVELS)}",
            )
        if operation is Operation.DELETE and name == ROOT:
            raise ApiError(ErrorCode.invalid_request, "Removing the log level of the root logger is not allowed")


def change_logger_levels(operations: Sequence[ConfigOperation]) -> None:
    """Make changes that were checked; a logger without a level of its own has that of the one above it."""
    for name, operation, level in operations:
        _logger(name).setLevel(_LEVELS[level] if operation is Operation.SET and level is not None else logging.NOTSET)


def _names() -> set[str]:
    loggers = logging.getLogger().manager.loggerDict
    return {ROOT, *(name for name, found in loggers.items() if isinstance(found, logging.Logger))}


def _logger(name: str) -> logging.Logger:
    return logging.getLogger(None if name == ROOT else name)


def _word(level: int) -> str:
    """The word of the coarsest level that is not above ``level``."""
    words = sorted(_LEVELS.items(), key=lambda entry: entry[1])
    return next((word for word, value in reversed(words) if value <= level), words[0][0])
