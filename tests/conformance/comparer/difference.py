"""Where two answers differ in anything but ids and times."""

import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from tests.conformance.comparer.messages import Plain

MASKED: Final = frozenset(
    {
        "throttle_time",
        "cluster_id",
        "topic_id",
        "producer_id",
        "host",
        "port",
        "log_dir",
        "total_bytes",
        "usable_bytes",
        "finalized_features_epoch",
        "last_timestamp",
        "last_fetch_timestamp",
        "last_caught_up_timestamp",
        "session_id",
        "log_append_time",
        "replica_directory_id",
        "voter_directory_id",
        "high_watermark_of_metadata",
    }
)
"""Fields whose values are each broker's own: ids, times, addresses and sizes of the machine. That there is one must be the same."""

_NAMES: Final = (
    "name",
    "topic_name",
    "topic",
    "topic_id",
    "resource_name",
    "group_id",
    "key",
    "feature",
    "user",
    "transactional_id",
    "index",
    "api_key",
    "partition_index",
    "partition_id",
    "partition",
    "broker_id",
    "node_id",
    "replica_id",
    "error_code",
)
"""Fields that say which element of a list it is, the first one that there is."""

_BASE64: Final = r"[A-Za-z0-9_-]"
_UUID: Final = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
    rf"|(?<!\w)(?={_BASE64}*[A-Z])(?={_BASE64}*[a-z]){_BASE64}{{21}}[AQgw](?!\w)"
)
"""An id as hexadecimal digits, or as base64, whose last letter holds two bits alone; one in forty of these has no digit."""

MISSING: Final = "nothing"


def masked(value: Plain, texts: Mapping[str, str]) -> Plain:
    """An answer without what is each broker's own, the elements of its lists in an order that follows from them."""
    if isinstance(value, dict):
        return {name: _mask(name, element, texts) for name, element in value.items()}
    if isinstance(value, list):
        return sorted((masked(element, texts) for element in value), key=_order)
    if isinstance(value, str):
        for text, shown in texts.items():
            value = value.replace(text, shown)
        return _UUID.sub("<id>", value)
    return value


def _mask(name: str, value: Plain, texts: Mapping[str, str]) -> Plain:
    if name in MASKED and not isinstance(value, list):
        return value if value in (None, -1, "") else f"<{name}>"
    return f"<{name}>" if isinstance(value, uuid.UUID) else masked(value, texts)


def _order(element: Plain) -> tuple[str, str]:
    return _label(element) or "", repr(element)


def _label(element: Plain) -> str | None:
    if isinstance(element, dict):
        for name in _NAMES:
            if element.get(name) is not None:
                return str(element[name])
    return None


def differences(ours: Plain, theirs: Plain, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Where two masked answers differ: the place, and what stands there in each."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        names = dict.fromkeys((*ours, *theirs))
        if ours.get("error_code") != theirs.get("error_code"):  # all else follows from it
            names = dict.fromkeys(("error_code", "error_message"))
        for name in names:
            below = f"{path}.{name}" if path else name
            yield from differences(ours.get(name, MISSING), theirs.get(name, MISSING), below)
    elif isinstance(ours, list) and isinstance(theirs, list):
        own, other = _labelled(ours), _labelled(theirs)
        for label in dict.fromkeys((*own, *other)):
            yield from differences(own.get(label, MISSING), other.get(label, MISSING), f"{path}[{label}]")
    elif ours != theirs:
        yield path, ours, theirs


def _labelled(elements: Sequence[Plain]) -> dict[str, Plain]:
    """Elements by what they are called, or by their place where they have no name of their own."""
    labels = [_label(element) for element in elements]
    if None in labels or len(set(labels)) < len(labels):
        return {str(place): element for place, element in enumerate(elements)}
    return {str(label): element for label, element in zip(labels, elements, strict=True)}
