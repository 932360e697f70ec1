"""The fields that the registrations of brokers and of controllers have in common."""

from collections.abc import Callable, Mapping
from typing import TypeVar

from kio.static.primitive import i16, u16

from esp.controller.image import FeatureRange
from esp.ports.network import Address

_Listener = TypeVar("_Listener")
_Feature = TypeVar("_Feature")


def encode_listeners(
    type_: Callable[..., _Listener], endpoints: Mapping[str, Address], security_protocols: Mapping[str, int]
) -> tuple[_Listener, ...]:
    """Endpoints, by the names of their listeners, as the message's ``type_``."""
    return tuple(
        type_(name=name, host=address.host, port=u16(address.port), security_protocol=i16(security_protocols[name]))
        for name, address in endpoints.items()
    )


def encode_features(type_: Callable[..., _Feature], features: Mapping[str, FeatureRange]) -> tuple[_Feature, ...]:
    """Features with the levels that the node can work at, as the message's ``type_``."""
    return tuple(
        type_(name=name, min_supported_version=i16(low), max_supported_version=i16(high))
        for name, (low, high) in features.items()
    )
