"""Addresses of bootstrap servers."""

import re
from typing import Final

from esp.consumer.cluster import Address
from esp.options.errors import OptionError

_ADDRESS: Final = re.compile(r"\[?([^\s\[\]]+?)\]?:(\d{1,5})")


def parse_servers(name: str, text: str | None) -> tuple[Address, ...]:
    """Return the addresses of an option.

    Args:
        name: the option, for messages.
        text: its value; None if it is missing.

    Raises:
        OptionError: it is missing, or is no list of addresses.
    """
    if text is None or not text.strip(" ,\t\n\r"):
        raise OptionError(name, text, "it says where the cluster is: write host:port of some of its brokers")
    servers = []
    for one in filter(None, map(str.strip, text.split(","))):
        found = _ADDRESS.fullmatch(one.rpartition("://")[2])
        if found is None or not 0 < int(found[2]) < 65536:
            raise OptionError(name, text, f"{one} is no address: write host:port")
        servers.append(Address(found[1], int(found[2])))
    return tuple(servers)
