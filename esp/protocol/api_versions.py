"""What an ApiVersions answer lists, derived from the registry."""

from kio.schema.api_versions.v4.response import ApiVersion
from kio.static.primitive import i16

from esp.protocol.registry import SERVED_ON, ListenerKind, ServedApi


def api_version_row(api: ServedApi) -> ApiVersion:
    """One API's row: its key and the versions that clients are told of."""
    return ApiVersion(api_key=i16(api.key), min_version=i16(api.advertised_min), max_version=i16(api.max_version))


def api_version_rows(kind: ListenerKind) -> tuple[ApiVersion, ...]:
    """The rows of all APIs that a kind of listener serves, by ascending key."""
    return tuple(api_version_row(api) for api in SERVED_ON[kind].values())
