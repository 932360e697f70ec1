"""The throttle time in the bytes of an answer (KIP-219): it is known when the request has been handled and its answer written.

In most answers it is the first field, or stands behind an error code. Answers without the field, and those of ApiVersions and about
delegation tokens, where fields of any length stand before it, do not tell it: their clients are throttled without knowing.
"""

import struct
from functools import cache
from typing import Final

from esp.model.buffers import Buffer
from esp.protocol.entity_fields import entity_fields
from esp.protocol.messages import load_class
from esp.protocol.registry import SERVED, ApiKey

_THROTTLE: Final = struct.Struct(">i")
_HEADER: Final = 8
"""Length of the frame, correlation id."""
_ERROR_CODE_SIZE: Final = 2
THROTTLE_MS_MAX: Final = 2**31 - 1


def with_throttle_time(api_key: int, version: int, head: Buffer, throttle_ms: int) -> Buffer:
    """An answer's first buffer, with another throttle time if it has a place for it.

    Args:
        api_key: the API of the request.
        version: the version of the request.
        head: the whole answer to a Produce request; of any other answer at least its first fields.
        throttle_ms: the time.
    """
    position = _position(api_key, version)
    if position is None:
        return head
    if position < 0:
        position += len(head)
    changed = bytearray(head)
    _THROTTLE.pack_into(changed, position, min(throttle_ms, THROTTLE_MS_MAX))
    return bytes(changed)


@cache
def _position(api_key: int, version: int) -> int | None:
    """The field's place in the frame, counted from its end if negative; None if there is none."""
    api = SERVED[api_key]
    is_flexible = version >= api.flexible_from
    if api_key == ApiKey.PRODUCE:
        return -_THROTTLE.size - 1 if is_flexible else -_THROTTLE.size
    if api_key == ApiKey.API_VERSIONS or not api.serves(version):
        return None
    position = _HEADER + is_flexible
    for field in entity_fields(load_class(api, version, "response")):
        if field.name == "throttle_time":
            return position
        if field.name != "error_code":
            return None
        position += _ERROR_CODE_SIZE
    return None
