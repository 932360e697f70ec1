"""What a node does all its life leaves nothing behind: the short form of ``make soak``, which sees what takes half an hour to show."""

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from statistics import median

import pytest

from esp.testing.node_process import NodeProcess
from esp.testing.pytest_plugin import AGAINST_KAFKA
from tests.integration.conftest import MakeTopic, eventually
from tests.integration.messages import fetch
from tests.integration.wire import Wire, frame

CONNECTIONS = 20
WAITS = 200
"""The number of waits of each connection, in a round."""
ABANDONED = 100
"""Connections of each thread in a round, each with a fetch that waits when it ends."""
LEFT_BYTES_MAX = 150
"""The most bytes that one fetch or connection leaves. They were 250 and 1,200 bytes when they were kept, and nothing since."""

PREPARED = "prepared for requests of every kind"
"""What a node says when it has got ready, in the background, for what it may be asked."""

SOAK_MINUTES = 0.6
SOAK_MEMORY_MIB_MAX = 120.0
SOAK_FILES_MORE = 30.0
"""Files of a topic that is made, and of connections that come and go."""

pytestmark = pytest.mark.skipif(AGAINST_KAFKA, reason="the memory of a process without a heap of its own")

Round = Callable[[NodeProcess, str], None]


def wait_for_records(node: NodeProcess, topic: str) -> None:
    """Fetch at the end of an empty partition over and over."""
    with Wire(node, 60) as wire:
        wire.socket.sendall(frame(fetch(topic, 0, max_wait_ms=1, min_bytes=1), 1) * WAITS)
        for _ in range(WAITS):
            wire.read()


def leave_while_waiting(node: NodeProcess, topic: str) -> None:
    """End connections whose fetch waits for longer than the test takes."""
    for _ in range(ABANDONED):
        with Wire(node) as wire:
            wire.socket.sendall(frame(fetch(topic, 0, max_wait_ms=1), 1))
            wire.read()
            wire.socket.sendall(frame(fetch(topic, 0, max_wait_ms=600_000, min_bytes=1), 2))
            wire.socket.shutdown(socket.SHUT_WR)
            assert wire.is_closed_by_node()


@pytest.mark.parametrize(("use", "times"), [(wait_for_records, WAITS), (leave_while_waiting, ABANDONED)])
def test_what_was_waited_for_is_not_kept(node: NodeProcess, make_topic: MakeTopic, use: Round, times: int) -> None:
    topic = make_topic()

    def use_it_by_many() -> int:
        threads = [threading.Thread(target=use, args=(node, topic)) for _ in range(CONNECTIONS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return node.own_memory_bytes()

    eventually(lambda: PREPARED in node.output, 60)
    *_, before = [use_it_by_many() for _ in range(3)]  # what is made once has been made
    after = [use_it_by_many() for _ in range(3)]
    assert after[-1] - before < 3 * CONNECTIONS * times * LEFT_BYTES_MAX, (before, after)


@pytest.mark.timeout(180)
def test_a_short_soak_goes_through_and_keeps_memory_and_files(tmp_path: Path) -> None:
    """The slope of half a minute is noise, so bounds are judged instead."""
    command = [sys.executable, "-m", "benchmarks.soak", "--minutes", str(SOAK_MINUTES), "--growth-max", "inf"]
    done = subprocess.run(
        [*command, "--out", str(tmp_path), "--data-dir", str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads((tmp_path / "soak.json").read_text())
    assert (tmp_path / "soak.png").stat().st_size > 0
    assert min(told[count] for count in ("produced", "consumed", "topics", "rebalances")) > 0, told
    files, half = told["open_files"], len(told["open_files"]) // 2
    assert max(told["own_memory_mib"]) < SOAK_MEMORY_MIB_MAX
    assert abs(median(files[half:]) - median(files[half // 2 : half])) < SOAK_FILES_MORE, files
