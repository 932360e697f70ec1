"""Nodes whose requests other nodes refuse, since their principal may not act for the cluster."""

from typing import Final

from esp.model.errors import ErrorCode

UNHEARD_REMEDY: Final = (
    "put this node's principal into super.users of the other nodes, or allow it ClusterAction on the cluster"
)
TOLD_AGAIN_US: Final = 30_000_000
"""The time after which the same refusal is logged again, however many there are."""


def told_refusal(code: ErrorCode) -> str:
    """The error of a refusal by another node, with the remedy if only an operator can give this node the right."""
    return f"{code.name}: {UNHEARD_REMEDY}" if code is ErrorCode.cluster_authorization_failed else code.name
