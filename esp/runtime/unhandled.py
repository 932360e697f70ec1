"""The fate of errors that escape from callbacks and tasks of the loop."""

import asyncio
import errno
import logging
from typing import Any

from esp.ports.host import Host

log = logging.getLogger(__name__)

OUT_OF_RESOURCES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
"""Calls that fail with these, as accepting does under a flood of connections, work again when some have ended, and the node with them."""


def stop_on_unhandled_errors(loop: asyncio.AbstractEventLoop, host: Host) -> None:
    """Make an unhandled error stop the node: the state it leaves cannot be trusted (:mod:`esp.model.errors`)."""

    def handle(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        message = context.get("message", "unhandled error")
        log.error("%s", message, exc_info=error)
        if error is not None and not (isinstance(error, OSError) and error.errno in OUT_OF_RESOURCES):
            host.fatal(message)

    loop.set_exception_handler(handle)
