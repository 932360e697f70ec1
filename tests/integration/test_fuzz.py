"""A minute of hostile clients; ``make fuzz MINUTES=30`` runs as long as you like."""

import os
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.hostile_clients import Attacker, split, spoil
from tests.integration.hostile_strangers import Stranger

TIMES_MAX = 8
"""What a machine that does other things too may make of the factor of two that is asked for when the fuzzer runs alone."""


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("minutes", "kind", "options"),
    [(1.0, Attacker, ()), (0.5, Stranger, ("--secure",))],
    ids=["everyone is served", "clients log in over TLS"],
)
def test_hostile_clients_harm_nobody_else(
    tmp_path: Path, minutes: float, kind: type[Attacker], options: tuple[str, ...]
) -> None:
    """In a process of its own: the attackers leave sockets behind, and take memory."""
    command = [
        sys.executable,
        "-m",
        "tests.integration.fuzz",
        "--minutes",
        str(minutes),
        "--seed",
        "1",
        "--times",
        str(TIMES_MAX),
        *options,
    ]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stdout[-20_000:]
    assert "failures: 0" in done.stdout
    counts = {name: int(count) for count, name in re.findall(r"(\d+) x ([-A-Za-z, ]+): ", done.stdout)}
    assert set(counts) == set(kind.KINDS)
    assert all(counts.values()), done.stdout
    answered = re.search(r"(\d+) requests answered", done.stdout)
    assert answered is not None
    assert int(answered[1]) > 100


def test_spoilt_requests_differ_and_pieces_are_the_whole() -> None:
    rng = random.Random(5)
    data = bytes(range(60))
    assert len({spoil(data, rng) for _ in range(100)}) > 50
    assert b"".join(split(data, rng)) == data
