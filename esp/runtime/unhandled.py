"""What becomes of errors that escape from callbacks and tasks of the loop."""

import asyncio
import errno
import logging
from typing import Any

from esp.ports.host import Host

log = logging.getLogger(__name__)

OUT_OF_RESOURCES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
"""What fails with these, as accepting does under a flood of connections, works again when some have ended, and the node with it."""


def stop_on_unhandled_errors(loop: asyncio.AbstractEventLoop, host: Host) -> None:
    """Make an error that nobody handled stop the node: the state it leaves cannot be trusted (:mod:`esp.model.errors`)."""

    def handle(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        message = context.get("message", "unhandled error")
        log.error("%s", message, exc_info=error)
        if error is not None and not (isinstance(error, OSError) and error.errno in OUT_OF_RESOURCES):
            host.fatal(message)

    loop.set_exception_handler(handle)
