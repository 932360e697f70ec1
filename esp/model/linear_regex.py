"""Regular expressions of clients and operators: RE2's syntax, which is Kafka's, and in which no expression takes long."""

from typing import Any

import re2


def compile_linear(pattern: str, *, has_groups: bool = False) -> Any:
    """The compiled expression: matching takes time in proportion to the text.

    Args:
        pattern: the expression.
        has_groups: whether matches tell what each group has matched. RE2 keeps that for every state of the expression at once: 800 MB and
            seconds for 2,500 groups in one another. So no expression of a client may ask for it.

    Raises:
        ValueError: it is none; the text says why.
    """
    options = re2.Options()
    options.log_errors = False
    options.never_capture = not has_groups
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0] if error.args else ""
        raise ValueError(reason.decode() if isinstance(reason, bytes) else reason) from error
    # The library would keep the last 128 expressions, each with up to 8 MB.
    re2.purge()
    return compiled
