"""A few minutes of chaos on real processes; ``make chaos MINUTES=30`` runs as long as you like."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from esp.simulation.checkers.client_history import Outcome, Read, Sent
from esp.testing.node import Node
from tests.integration.chaos import FIRST, judge
from tests.integration.chaos_clients import AioWriter, RdReader, RdWriter
from tests.integration.chaos_disks import LogDirectories, directory_settings
from tests.integration.chaos_operator import Operator

MINUTES = 1.5


@pytest.mark.timeout(600)
def test_chaos_loses_nothing(tmp_path: Path) -> None:
    """In a process of its own, as users run it: clients that are hurt leave sockets behind, which other tests must not be blamed for."""
    options = [
        "--minutes",
        str(MINUTES),
        "--seed",
        "1",
        "--idle-partitions",
        "200",
    ]  # to create 2,000 takes half as long again
    command = [sys.executable, "-m", "tests.integration.chaos", *options]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stdout[-20_000:]
    assert "violations: 0" in done.stdout
    told = re.search(r"faults: (.*)", done.stdout)
    assert told is not None
    faults = {kind: int(count) for count, _, kind in (each.partition(" x ") for each in told[1].split(", "))}
    assert all(faults.get(kind) for kind in FIRST), faults
    assert sum(faults.values()) > 5, faults
    counts = re.findall(r"(\d+) records acknowledged, (\d+) read", done.stdout)
    assert len(counts) == 3
    assert all(int(number) > 100 for pair in counts for number in pair), counts


def test_the_judge_accepts_what_is_correct_and_catches_what_is_not() -> None:
    final = [Read(0, offset, "k0", offset) for offset in range(5)]

    def verdict(acked: int = 5, seen: list[Read] | None = None, denied_s: tuple[int, ...] = ()) -> list[str]:
        writer, reader = RdWriter("x:1", "t"), RdReader("x:1", "t")
        writer.sent = [Sent("k0", number, Outcome.ACKED, 0, number) for number in range(acked)]
        reader.read = final if seen is None else seen
        for moment_s in denied_s:
            reader.denials.on_denied(0, moment_s)
        return list(judge(writer, reader, final))

    assert verdict() == []
    assert verdict(seen=final[:3]) == []
    assert "lost" in verdict(6)[0]
    assert "nothing was acknowledged" in verdict(0)[0]
    assert "a reader saw" in verdict(seen=[*final, Read(0, 5, "k0", 5)])[0]
    assert "after 1" in verdict(seen=[*final[:2], *final[3:]])[0]
    assert "after 4" in verdict(seen=[*final, final[2]])[0]
    assert verdict(denied_s=(100, 104)) == []
    assert "told for 6.0 s that its offset does not exist" in verdict(denied_s=(100, 103, 106))[0]


def test_the_judge_of_deletions_accepts_what_was_asked_and_catches_what_was_not() -> None:
    def verdict(first: int, *, done: int = 1, lost: int | None = None) -> list[str]:
        operator, writer = Operator("x:1", "t", ["t"], 1), AioWriter("x:1", "t")
        operator.asked[0] = 5
        operator.deletions = operator.changes = operator.default_changes = done
        writer.sent = [Sent("k0", number, Outcome.ACKED, 0, number) for number in range(10)]
        return list(operator.judge(writer, [Read(0, at, "k0", at) for at in range(first, 10) if at != lost]))

    assert verdict(5) == []
    assert verdict(3) == []
    assert "0 deletions" in verdict(5, done=0)[0]
    assert "begins at 6" in verdict(6)[0]
    assert "lost: k0#5" in verdict(6)[1]
    assert "lost: k0#7" in verdict(5, lost=7)[0]
    assert verdict(5, lost=4) == []


def test_directories_are_emptied_or_taken_out_and_put_back_and_logs_are_found_in_whichever_they_are(
    tmp_path: Path,
) -> None:
    node = Node(tmp_path / "node", directory_settings(tmp_path / "node"))
    first, second = node.log_dirs
    directories = LogDirectories(node)
    for log in (first / "t-0", second / "t-1", second / "u-0"):
        log.mkdir(parents=True)
    directories.remove_log("t", 1)
    assert not (second / "t-1").exists()
    with pytest.raises(ValueError, match="not enough values"):
        directories.remove_log("t", 1)
    assert directories.find(["t"]) == [first]
    assert directories.find(["t", "u"]) == [first, second]
    directories.empty(first)
    assert node.log_dirs == [first, second]
    assert directories.find(["t"]) == []
    assert first.exists()
    directories.take_out(second)
    assert node.log_dirs == [first]
    assert not second.exists()
    directories.put_back()
    assert node.log_dirs == [first, second]
