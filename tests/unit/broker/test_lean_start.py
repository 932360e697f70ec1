"""A node's start loads nothing that most nodes do without for long (decision 2)."""

import subprocess
import sys
from functools import cache

import pytest

MODULES_MAX = 467
"""The most modules, of ours and of kio's, each of which costs about half a millisecond. Raise it with a reason only. Twelve are the
settings by subject, which take 0.3 ms more together than one large module; one is what names look like in a line of the log."""


@cache
def loaded_by_a_start() -> frozenset[str]:
    modules = "esp.runtime.env, esp.broker.app, esp.broker.broker_role, esp.broker.controller_role"
    program = f"import sys, {modules}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    return frozenset(done.stdout.split())


@pytest.mark.parametrize(
    "needed_later",
    [
        "esp.broker.share",  # share partitions
        "esp.share.partition",
        "esp.share.coordinator.coordinator",
        "esp.broker.holds",  # readers that hold records
        "esp.protocol.trash",  # deleted topics that are purged
        "esp.transactions",  # coordinators
        "esp.groups.coordinator",
        "esp.authorization",  # guarded nodes
        "esp.authentication",
        "esp.broker.authorization.gate",
        "esp.broker.authentication",
        "esp.broker.connections.certificate_principals",
        "esp.model.principal_mapping",
        "esp.runtime.tls",
        "cryptography",
        "joserfc",
        "esp.quotas",  # clusters with quotas
        "esp.broker.quotas.enforcer",
        "esp.broker.metrics.families",  # nodes with a listener for metrics
        "prometheus_client",
        "esp.rebalance",  # tools
        "esp.cli.kafka",
        "kafka",
        "typer",
        "hypothesis",
    ],
)
def test_modules_that_are_needed_later_are_loaded_later(needed_later: str) -> None:
    assert [name for name in loaded_by_a_start() if f"{name}.".startswith(f"{needed_later}.")] == []


def test_a_start_loads_no_more_modules_than_it_used_to() -> None:
    counted = [name for name in loaded_by_a_start() if name.partition(".")[0] in ("esp", "kio")]
    assert len(counted) <= MODULES_MAX
