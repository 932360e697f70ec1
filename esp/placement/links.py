"""Bytes that go from one broker to another."""

from typing import NamedTuple

from esp.model.ids import NodeId


class LinkBytes(NamedTuple):
    """The bytes that a target fetches from a source: followers copy from the leader."""

    source: NodeId
    target: NodeId
    size_bytes: int
