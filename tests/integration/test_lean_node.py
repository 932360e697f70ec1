"""A node that protects nothing loads nothing of what protects."""

import re
from collections.abc import Sequence
from pathlib import Path

from esp.testing.node import Node
from tests.integration.conftest import eventually

OF_SECURITY = (
    "cryptography",
    "esp.authentication",
    "esp.authorization",
    "esp.broker.authentication",
    "esp.broker.authorization.gate",
    "esp.broker.quotas.enforcer",
    "esp.quotas",
    "esp.runtime.tls",
    "joserfc",
)


class WatchedNode(Node):
    """Says on its standard error which modules it imports."""

    PROGRAM: Sequence[str] = ("-X", "importtime", "-m", "esp")


def imported_by(node: Node) -> set[str]:
    said = node.stderr_path.read_text(encoding="utf-8", errors="replace")
    return set(re.findall(r"^import time:[ 0-9]+\|[ 0-9]+\| +(\S+)$", said, re.MULTILINE))


def test_a_node_without_security_imports_nothing_of_it(tmp_path: Path) -> None:
    with WatchedNode(tmp_path / "data") as node:
        eventually(lambda: node.is_warm, timeout_s=30)
    names = imported_by(node)
    assert "esp.broker.connections.session" in names
    assert [name for name in names if f"{name}.".startswith(tuple(f"{each}." for each in OF_SECURITY))] == []
