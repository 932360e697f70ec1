"""A network that is cut lets nothing through, and all of it when it is healed."""

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from esp.testing.node_networks import NamespaceNetwork, NodeNetwork, PlainNetwork, ProxyNetwork

ECHO = (
    "import socket, sys\n"
    "listener = socket.create_server((sys.argv[1], int(sys.argv[2])))\n"
    "print('ready', flush=True)\n"
    "while True:\n"
    "    connection, _ = listener.accept()\n"
    "    connection.sendall(connection.recv(100)); connection.close()\n"
)
ASK = (
    "import socket, sys\n"
    "connection = socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=0.3)\n"
    "connection.sendall(b'hello'); print(connection.recv(100).decode(), end='')\n"
)
PORT = 21_999


@pytest.fixture
def proxied() -> Iterator[tuple[ProxyNetwork, int]]:
    """A network of proxies, and the public port of an echo on node 1."""
    network = ProxyNetwork()
    listener = socket.create_server(("127.0.0.1", 0))

    def echo() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.sendall(connection.recv(100))

    thread = threading.Thread(target=echo)
    thread.start()
    yield network, network.public_port(1, listener.getsockname()[1])
    network.close()
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join()


def ask(port: int) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=0.3) as connection:
        connection.sendall(b"hello")
        return connection.recv(100)


def test_a_proxy_passes_on_until_it_is_cut_and_again_when_it_is_healed(proxied: tuple[ProxyNetwork, int]) -> None:
    network, port = proxied
    assert ask(port) == b"hello"
    network.isolate(2)
    assert ask(port) == b"hello"
    network.isolate(1)
    with pytest.raises(TimeoutError):
        ask(port)
    network.heal()
    assert ask(port) == b"hello"


def test_the_loopback_network_cannot_be_cut() -> None:
    network: NodeNetwork = PlainNetwork()
    with pytest.raises(NotImplementedError):
        network.cut(1, 2)
    assert network.public_port(1, 5) == 5


@pytest.mark.skipif(not NamespaceNetwork.is_possible(), reason="network namespaces are not allowed here")
def test_namespaces_are_cut_by_pairs_and_from_all() -> None:
    network = NamespaceNetwork(2)
    servers = []

    def answer(asker: int | None, asked: int) -> str:
        prefix = network.command_prefix(asker) if asker is not None else ()
        command = [*prefix, sys.executable, "-c", ASK, network.host_of(asked), str(PORT)]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout

    try:
        for node in (1, 2):
            command = [*network.command_prefix(node), sys.executable, "-c", ECHO, network.host_of(node), str(PORT)]
            server = subprocess.Popen(command, stdout=subprocess.PIPE)
            servers.append(server)
            assert server.stdout is not None
            assert server.stdout.readline() == b"ready\n"
        assert [answer(1, 2), answer(2, 1), answer(None, 1)] == ["hello"] * 3
        network.cut(1, 2)
        assert [answer(1, 2), answer(2, 1), answer(None, 1)] == ["", "", "hello"]
        network.heal()
        assert [answer(1, 2), answer(2, 1)] == ["hello"] * 2
        network.isolate(1)
        assert [answer(2, 1), answer(None, 1), answer(None, 2)] == ["", "", "hello"]
        network.heal()
        assert [answer(2, 1), answer(None, 1)] == ["hello"] * 2
    finally:
        for server in servers:
            server.kill()
            server.communicate()
        network.close()
