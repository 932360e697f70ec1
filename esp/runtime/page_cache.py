"""Small reads that the page cache can answer, told apart from those that would wait for the device.

Linux alone can tell (``preadv2`` with ``RWF_NOWAIT``). Elsewhere, and on file systems that refuse the flag, every byte counts as cached: a
read may then hold up the caller, which a development machine can bear.
"""

import errno
import os

_NOWAIT: int = getattr(os, "RWF_NOWAIT", 0)


def read_resident(fd: int, offset: int, length: int) -> bytearray | None:
    """Return exactly ``length`` bytes, which the file must have, or None if they are not all in the page cache."""
    buffer = bytearray(length)
    try:
        count = os.preadv(fd, (buffer,), offset, _NOWAIT)
    except BlockingIOError:
        return None
    except OSError as error:
        if error.errno != errno.EOPNOTSUPP:
            raise
        count = os.preadv(fd, (buffer,), offset)
    return buffer if count == length else None
