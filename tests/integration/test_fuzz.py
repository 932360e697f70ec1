"""A minute of hostile clients; ``make fuzz MINUTES=30`` runs as long as you like."""

import os
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest

from esp.model.errors import ErrorCode
from tests.integration.fuzz_grounds import SecureGround
from tests.integration.hostile_clients import Attacker, split, spoil
from tests.integration.hostile_strangers import ANYONE, INSIDER, MALLORY, SENDERS, Stranger

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


def test_envelopes_reach_a_controller_that_reads_them(tmp_path: Path) -> None:
    """It answers strangers and users without rights that they may not, and those who may according to what they enclose."""
    with SecureGround(tmp_path).make("node") as node:
        attacker = Stranger(node, random.Random(1))
        codes = {
            sender: {
                int.from_bytes(answer[-3:-1])  # after it come the tagged fields, of which there are none
                for answer in (attacker.enclose(sender) for _ in range(20))
                if answer
            }
            for sender in SENDERS
        }
    denied = int(ErrorCode.cluster_authorization_failed)
    assert (codes[ANYONE], codes[MALLORY[0]]) == ({denied}, {denied})
    assert {int(ErrorCode.invalid_request), int(ErrorCode.principal_deserialization_failure)} <= codes[INSIDER]
    assert denied not in codes[INSIDER]


def test_spoilt_requests_differ_and_pieces_are_the_whole() -> None:
    rng = random.Random(5)
    data = bytes(range(60))
    assert len({spoil(data, rng) for _ in range(100)}) > 50
    assert b"".join(split(data, rng)) == data
