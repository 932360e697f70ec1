"""The network between the nodes of a cluster under test, which can be cut.

Two bodies: :class:`NamespaceNetwork` gives each node a network of its own (Linux, root), where any pair can be cut, in silence, as by a
switch that drops packets. :class:`ProxyNetwork` works everywhere: the world reaches a node through a proxy, so a node is cut off from all
that connect to it, while what it connects to itself stays.
"""

import contextlib
import os
import secrets
import shutil
import socket
import subprocess
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Final

HOST: Final = "127.0.0.1"
_NOBODY: Final = "02:00:00:00:00:01"
"""A hardware address that no interface has: what is sent there vanishes without a word."""

_CHUNK_BYTES: Final = 65_536


class NodeNetwork(ABC):
    """The network of some nodes, which can cut connections between them. Nodes are numbered from 1."""

    @abstractmethod
    def host_of(self, node: int, /) -> str:
        """The address that the node listens on and is known by."""

    @abstractmethod
    def command_prefix(self, node: int, /) -> Sequence[str]:
        """The words before a command that is to run in the node's network."""

    @abstractmethod
    def public_port(self, node: int, port: int, /) -> int:
        """The port by which others reach the node's ``port``."""

    @abstractmethod
    def isolate(self, node: int, /) -> None:
        """Cut the node off from all others and from clients."""

    @abstractmethod
    def cut(self, first: int, second: int, /) -> None:
        """Cut the connection between two nodes, both ways; clients see both."""

    @abstractmethod
    def heal(self) -> None:
        """Undo every cut."""

    @abstractmethod
    def close(self) -> None:
        """Take the network down."""


class PlainNetwork(NodeNetwork):
    """All nodes on the loopback address; nothing can be cut."""

    def host_of(self, _node: int, /) -> str:
        """Loopback, for all."""
        return HOST

    def command_prefix(self, _node: int, /) -> Sequence[str]:
        """Nothing."""
        return ()

    def public_port(self, _node: int, port: int, /) -> int:
        """The node's own."""
        return port

    def isolate(self, _node: int, /) -> None:
        """Not possible here."""
        raise NotImplementedError("this network cannot be cut")

    def cut(self, _first: int, _second: int, /) -> None:
        """Not possible here."""
        raise NotImplementedError("this network cannot be cut")

    def heal(self) -> None:
        """Nothing is cut."""

    def close(self) -> None:
        """Nothing was made."""


class NamespaceNetwork(NodeNetwork):
    """A network namespace per node, a pair of virtual interfaces each, and a bridge between them on which clients sit.

    Args:
        nodes: how many.
    """

    def __init__(self, nodes: int) -> None:
        self._tag = secrets.token_hex(3)
        self._bridge = f"esp{self._tag}"
        self._nodes = range(1, nodes + 1)
        self._cuts: set[tuple[int, int]] = set()
        self._subnet = ""
        try:
            self._make()
        except OSError:
            self.close()
            raise

    @staticmethod
    def is_possible() -> bool:
        """True if this process may make network namespaces."""
        if shutil.which("ip") is None or os.geteuid() != 0:
            return False
        name = f"esp-probe-{secrets.token_hex(3)}"
        try:
            _ip("netns", "add", name)
            _ip("netns", "delete", name)
        except OSError:
            return False
        return True

    def _make(self) -> None:
        _ip("link", "add", self._bridge, "type", "bridge")
        self._subnet = _free_subnet()
        _ip("address", "add", f"{self._subnet}.1/24", "dev", self._bridge)
        _ip("link", "set", self._bridge, "up")
        for node in self._nodes:
            space, outer = self._namespace(node), f"{self._bridge}n{node}"
            _ip("netns", "add", space)
            _ip("link", "add", outer, "type", "veth", "peer", "name", "eth0", "netns", space)
            _ip("link", "set", outer, "master", self._bridge, "up")
            _ip("-netns", space, "address", "add", f"{self.host_of(node)}/24", "dev", "eth0")
            _ip("-netns", space, "link", "set", "eth0", "up")
            _ip("-netns", space, "link", "set", "lo", "up")

    def host_of(self, node: int, /) -> str:
        """An address of the cluster's own subnet."""
        return f"{self._subnet}.{10 + node}"

    def command_prefix(self, node: int, /) -> Sequence[str]:
        """Into the namespace; the command keeps the process id."""
        return ("ip", "netns", "exec", self._namespace(node))

    def isolate(self, node: int, /) -> None:
        """Take the node's cable out, on the side of the switch."""
        _ip("link", "set", f"{self._bridge}n{node}", "nomaster")

    def cut(self, first: int, second: int, /) -> None:
        """Direct the packets that each node sends to the other to a hardware address that no interface has."""
        for source, target in ((first, second), (second, first)):
            self._cuts.add((source, target))
            where = ("dev", "eth0", "nud", "permanent")
            _ip("-netns", self._namespace(source), "neigh", "replace", self.host_of(target), "lladdr", _NOBODY, *where)

    def public_port(self, _node: int, port: int, /) -> int:
        """The node's own."""
        return port

    def heal(self) -> None:
        """All cables in, all addresses right."""
        for source, target in self._cuts:
            _ip("-netns", self._namespace(source), "neigh", "delete", self.host_of(target), "dev", "eth0")
        self._cuts.clear()
        for node in self._nodes:
            _ip("link", "set", f"{self._bridge}n{node}", "master", self._bridge)

    def close(self) -> None:
        """Remove everything, as far as it was made."""
        for node in self._nodes:
            with contextlib.suppress(OSError):
                _ip("netns", "delete", self._namespace(node))
        with contextlib.suppress(OSError):
            _ip("link", "delete", self._bridge)

    def _namespace(self, node: int) -> str:
        return f"{self._bridge}-{node}"


class ProxyNetwork(PlainNetwork):
    """A proxy before each port of each node."""

    def __init__(self) -> None:
        self._proxies: dict[tuple[int, int], _Proxy] = {}

    def public_port(self, node: int, port: int, /) -> int:
        """The port of the proxy, which is made when it is first asked for."""
        if (node, port) not in self._proxies:
            self._proxies[node, port] = _Proxy(port)
        return self._proxies[node, port].port

    def isolate(self, node: int, /) -> None:
        """End the connections to the node and take no new ones."""
        for (owner, _), proxy in self._proxies.items():
            if owner == node:
                proxy.cut()

    def cut(self, first: int, _second: int, /) -> None:
        """Cut the first node off from all peers that connect to it: a proxy cannot tell its peers apart."""
        self.isolate(first)

    def heal(self) -> None:
        """Take connections again."""
        for proxy in self._proxies.values():
            proxy.heal()

    def close(self) -> None:
        """End all proxies."""
        for proxy in self._proxies.values():
            proxy.close()


class _Proxy:
    """Passes TCP connections on to a port. While it is cut, bytes are swallowed; when it is healed, the connections that miss them end."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._listener = socket.create_server((HOST, 0))
        self.port: int = self._listener.getsockname()[1]
        self._open = threading.Event()
        self._open.set()
        self._pairs: dict[socket.socket, socket.socket] = {}
        self._acceptor = threading.Thread(target=self._accept, daemon=True)
        self._acceptor.start()

    def cut(self) -> None:
        self._open.clear()

    def heal(self) -> None:
        self._end_connections()  # bytes are missing in them
        self._open.set()

    def close(self) -> None:
        self._open.set()
        _shut_down(self._listener)
        self._acceptor.join()
        self._listener.close()
        self._end_connections()

    def _end_connections(self) -> None:
        for client, server in list(self._pairs.items()):
            _shut_down(client, server)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._open.wait()
            try:
                server = socket.create_connection((HOST, self._target))
            except OSError:
                client.close()
                continue
            self._pairs[client] = server
            threading.Thread(target=self._serve, args=(client, server), daemon=True).start()

    def _serve(self, client: socket.socket, server: socket.socket) -> None:
        answers = threading.Thread(target=self._pump, args=(server, client), daemon=True)
        answers.start()
        self._pump(client, server)
        answers.join()
        del self._pairs[client]
        client.close()
        server.close()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            for chunk in iter(lambda: source.recv(_CHUNK_BYTES), b""):
                if self._open.is_set():
                    sink.sendall(chunk)
        _shut_down(source, sink)


def _shut_down(*sockets: socket.socket) -> None:
    for one in sockets:
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)


def _free_subnet() -> str:
    """Return the first three numbers of a private network that no interface of this host is in."""
    used = subprocess.run(["ip", "-o", "address"], capture_output=True, text=True, check=True).stdout  # noqa: S607
    return next(subnet for subnet in _subnets() if f" {subnet}." not in used)


def _subnets() -> Iterator[str]:
    while True:
        yield f"10.213.{secrets.randbelow(256)}"


def _ip(*arguments: str) -> None:
    """Run ``ip``.

    Raises:
        OSError: it refused.
    """
    path = shutil.which("ip")
    if path is None:
        raise FileNotFoundError("there is no `ip` on the PATH (Debian: iproute2)")
    done = subprocess.run([path, *arguments], capture_output=True, text=True, check=False)  # noqa: S603 - commands are made here
    if done.returncode != 0:
        raise OSError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")


def cuttable_network(nodes: int) -> NodeNetwork:
    """Return the best network that this machine allows and that can be cut."""
    return NamespaceNetwork(nodes) if NamespaceNetwork.is_possible() else ProxyNetwork()
