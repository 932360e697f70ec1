"""Regular expressions of clients and operators: RE2's syntax, which is Kafka's, and in which no expression takes long."""

from typing import Any

import re2


def compile_linear(pattern: str) -> Any:
    """The compiled expression: matching takes time in proportion to the text.

    Raises:
        ValueError: it is none; the text says why.
    """
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0] if error.args else ""
        raise ValueError(reason.decode() if isinstance(reason, bytes) else reason) from error
