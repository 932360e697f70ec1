"""Names for shells, from a broker of a few bytes."""

import socket
import struct
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from esp.cli.name_completion import Wanted, complete, find_wanted
from tests.unit.cli.transactions.played_cluster import PlayedCluster

AT = "127.0.0.1:9092"


def bash(*words: str) -> dict[str, str]:
    return {"_ESP_COMPLETE": "complete_bash", "COMP_WORDS": "\n".join(words), "COMP_CWORD": str(len(words) - 1)}


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [
        (bash("esp", "topics", "--topic", "fl"), Wanted("topics", "fl", AT)),
        (bash("esp", "topics", "--topic", ""), Wanted("topics", "", AT)),
        (bash("esp", "topics", "--topic", "="), Wanted("topics", "", AT)),
        (bash("esp", "topics", "--topic", "=", "fl"), Wanted("topics", "fl", AT)),
        (bash("esp", "groups", "--group", "r"), Wanted("groups", "r", AT)),
        (
            bash("esp", "consume", "--bootstrap-server", "h", ":", "1", "--topic", "x"),
            Wanted("topics", "x", "h:1"),
        ),
        (
            bash("esp", "transactions", "describe", "--transactional-id", "or"),
            Wanted("transactional ids", "or", AT),
        ),
        (bash("esp", "transactions", "list", "--transactional-id-pattern", "or"), None),
        (bash("esp", "topics", "--li"), None),
        (bash("esp", "topics", "--command-config", "c", "--topic", "fl"), None),
        (bash("esp", "topics", "--topic", "fl") | {"ESP_COMMAND_CONFIG": "c"}, None),
        (bash("esp", "to"), None),
        (
            {"_ESP_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": "esp topics --topic fl"},
            Wanted("topics", "fl", AT),
        ),
        ({"_ESP_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": "esp topics --topic "}, Wanted("topics", "", AT)),
        ({"_ESP_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": "esp topics --topic '"}, None),
        ({"_ESP_COMPLETE": "source_bash"}, None),
        ({}, None),
    ],
)
def test_names_are_wanted_behind_the_options_that_take_them(environment, wanted):
    assert find_wanted(environment) == wanted


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def metadata(*topics: str) -> bytes:
    """Version 4, of one broker; each topic has two partitions."""
    partition = struct.pack(">hii", 0, 0, 1) + struct.pack(">iii", 2, 1, 2) + struct.pack(">ii", 1, 1)
    rows = b"".join(
        struct.pack(">h", 0) + text(topic) + b"\0" + struct.pack(">i", 2) + 2 * partition for topic in topics
    )
    brokers = struct.pack(">ii", 1, 1) + text("127.0.0.1") + struct.pack(">ih", 1, -1)
    return struct.pack(">ii", 0, 0) + brokers + text("cluster") + struct.pack(">ii", 1, len(topics)) + rows


def test_broker_is_asked_once_and_names_that_need_quoting_are_left_out(tmp_path):
    environment = {"_ESP_COMPLETE": "complete_bash", "XDG_CACHE_HOME": str(tmp_path)}
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            with server.accept()[0] as connection:
                connection.recv(1000)
                content = metadata("flights", "flats", "x;rm", "boats")
                connection.sendall(struct.pack(">i", len(content)) + content)

        asked = threading.Thread(target=answer)
        asked.start()
        at = f"127.0.0.1:{server.getsockname()[1]}"
        assert complete(Wanted("topics", "fl", at), environment) == "flats\nflights\n"
        asked.join()
    assert complete(Wanted("topics", "b", at), environment) == "boats\n", "the broker is gone, the answer is kept"
    in_zsh = {**environment, "_ESP_COMPLETE": "complete_zsh"}
    assert complete(Wanted("topics", "", at), in_zsh) == "_arguments '*: :(boats flats flights)'\n"


def test_transactional_ids_come_from_all_brokers_that_answer(tmp_path):
    with PlayedCluster(3, down=[2]) as cluster:
        for number in range(300):
            cluster.know(f"orders-{number}", number, coordinator=number % 2)
        cluster.know("bills", 300, state="CompleteCommit")
        cluster.know("orders-gone", 301, coordinator=2)
        wanted = Wanted("transactional ids", "orders-", cluster.bootstrap)
        told = complete(wanted, {"_ESP_COMPLETE": "complete_bash", "XDG_CACHE_HOME": str(tmp_path)})
    assert told.splitlines() == sorted(f"orders-{number}" for number in range(300))


@pytest.mark.parametrize("content", [b"", b"\0\0\0\2ab", b"\0\0\0\4abcd", b"\xff\xff\xff\xff", b"HTTP/1.1 400\r\n"])
def test_whoever_is_no_broker_completes_nothing(tmp_path, content):
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            with server.accept()[0] as connection:
                connection.recv(1000)
                connection.sendall(content)

        asked = threading.Thread(target=answer)
        asked.start()
        wanted = Wanted("topics", "", f"127.0.0.1:{server.getsockname()[1]}")
        assert complete(wanted, {"_ESP_COMPLETE": "complete_bash", "XDG_CACHE_HOME": str(tmp_path)}) == ""
        asked.join()


def test_completing_a_name_loads_nothing_of_the_tools(tmp_path: Path):
    program = (
        "import sys; sys.argv = ['esp']\n"
        "from esp.__main__ import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert end.code == 0\n"
        "loaded = {'typer', 'rich', 'kafka', 'asyncio'} & set(sys.modules)\n"
        "assert not loaded, loaded"
    )
    environment = {**bash("esp", "topics", "--topic", "fl"), "ESP_BOOTSTRAP_SERVER": "127.0.0.1:1"}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**environment, "XDG_CACHE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[3],
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
