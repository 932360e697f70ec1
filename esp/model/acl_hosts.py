"""The hosts of rules: every host, one address, or a network.

An IPv6 address that stands for an IPv4 one is that one, and addresses are compared as numbers, so that it does not matter how one is
written. Kafka compares texts.
"""

from collections.abc import Callable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from esp.model.acl import WILDCARD

HostMatcher = Callable[[IPv4Address | IPv6Address | None], bool]
"""True if a rule's host is that of the peer; a peer without an address matches every host only."""


def find_host(text: str) -> IPv4Address | IPv6Address | None:
    """The address of a peer, or None if the text is none."""
    try:
        address = ip_address(text)
    except ValueError:
        return None
    return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address


def as_peers_have_it(text: str) -> str:
    """Return an address as the network writes those of peers; a text that is no address as it is."""
    address = find_host(text)
    return text if address is None else str(address)


def find_matcher(host: str) -> HostMatcher | None:
    """The test of a rule's host; None if no peer can have such a host."""
    if host == WILDCARD:
        return _any
    network = _find_network(host)
    if network is None:
        return None
    return lambda address: address is not None and address.version == network.version and address in network


def is_host_within(narrow: str, wide: str) -> bool:
    """True if every peer that a rule's host matches is matched by the other one, too."""
    if wide in (WILDCARD, narrow):
        return True
    if narrow == WILDCARD:
        return False
    inner, outer = _find_network(narrow), _find_network(wide)
    if isinstance(inner, IPv4Network) and isinstance(outer, IPv4Network):
        return inner.subnet_of(outer)
    return isinstance(inner, IPv6Network) and isinstance(outer, IPv6Network) and inner.subnet_of(outer)


def _find_network(host: str) -> IPv4Network | IPv6Network | None:
    """The addresses that a rule's host names; None if it is none."""
    try:
        network = ip_network(host, strict=False)
    except ValueError:
        return None
    if isinstance(network, IPv6Network) and network.prefixlen >= 96:
        mapped = network.network_address.ipv4_mapped
        if mapped is not None:
            return IPv4Network((mapped, network.prefixlen - 96))
    return network


def _any(_address: IPv4Address | IPv6Address | None) -> bool:
    return True
