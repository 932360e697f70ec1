"""Shells complete names of topics and groups, and transactional ids, by asking the cluster; typer completes all else.

Every press of the key starts a process, so this one loads nothing but the standard library: three requests are written by hand here, each
in its oldest form. What was told is kept for some seconds, and is taken also when no broker answers in time.
"""

import json
import os
import re
import shlex
import socket
import struct
import time
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Final, NamedTuple

KINDS: Final = {"--topic": "topics", "--group": "groups", "--transactional-id": "transactional ids"}
"""The kind of name that the value of an option is."""

CACHED_S: Final = 10.0
_TIMEOUT_S: Final = 0.5
"""The limit of each wait: the user is typing."""
_ANSWER_SIZE_MAX: Final = 16 * 1024 * 1024
_SAFE: Final = re.compile(r"[\w.:@/+-]+", re.ASCII)
"""Names that need no quoting: zsh evaluates what it is told."""
_SERVER: Final = "--bootstrap-server"
_METADATA, _METADATA_VERSION = 3, 4
_LIST_GROUPS, _LIST_GROUPS_VERSION = 16, 1
_LIST_TRANSACTIONS, _LIST_TRANSACTIONS_VERSION = 66, 0
_I16, _I32 = struct.Struct(">h"), struct.Struct(">i")
_I64_SIZE: Final = 8
_REQUEST: Final = struct.Struct(">ihhih3s")


class Wanted(NamedTuple):
    """The word that a shell asks to complete."""

    kind: str
    beginning: str
    servers: str


def find_wanted(environment: Mapping[str, str]) -> Wanted | None:
    """Read from the variables of typer's scripts what is to be completed; None if it is no name that a cluster knows.

    None also for a command with settings of a client: this asks without TLS and log-in, and a broker that needs them logs each attempt.
    """
    shell = environment.get("_ESP_COMPLETE")
    if shell == "complete_bash":
        words = environment.get("COMP_WORDS", "").split("\n")
        position = int(environment.get("COMP_CWORD") or 0)
        words = [*words[:position], words[position] if position < len(words) else ""]
    elif shell == "complete_zsh":
        text = environment.get("_TYPER_COMPLETE_ARGS", "")
        try:
            words = shlex.split(text)
        except ValueError:  # a quote is still open
            return None
        if not text or text[-1].isspace():
            words.append("")
    else:
        return None
    if environment.get("ESP_COMMAND_CONFIG") or any(word.startswith("--command-config") for word in words):
        return None
    option, beginning = _option(words)
    kind = KINDS.get(option)
    return None if kind is None else Wanted(kind, beginning, _servers(words, environment))


def _option(words: Sequence[str]) -> tuple[str, str]:
    """The option whose value is being typed, and the part of the value so far. Bash makes three words of ``--topic=fl``."""
    *before, last = words
    if last.startswith("--") and "=" in last:
        option, _, last = last.partition("=")
        return option, last
    if last == "=" and before:
        return before[-1], ""
    if before and before[-1] == "=":
        before.pop()
    return (before[-1] if before else ""), last


def _servers(words: Sequence[str], environment: Mapping[str, str]) -> str:
    """The brokers to ask. Bash makes three words of HOST:PORT."""
    text = ""
    if _SERVER in words:
        for word in words[words.index(_SERVER) + 1 :]:
            if word.startswith("-"):
                break
            text += word.lstrip("=")
    return text or environment.get("ESP_BOOTSTRAP_SERVER") or "127.0.0.1:9092"


def complete(wanted: Wanted, environment: Mapping[str, str]) -> str:
    """Return what the shell is told."""
    names = [name for name in _names(wanted, environment) if name.startswith(wanted.beginning)]
    if environment.get("_ESP_COMPLETE") == "complete_bash":
        return "".join(f"{name}\n" for name in names)
    return f"_arguments '*: :({' '.join(names)})'\n" if names else ""


def _names(wanted: Wanted, environment: Mapping[str, str]) -> list[str]:
    home = environment.get("XDG_CACHE_HOME") or os.path.join(environment.get("HOME", "/nonexistent"), ".cache")
    digest = sha256(f"{wanted.kind} {wanted.servers}".encode()).hexdigest()[:16]
    path = os.path.join(home, "esp", f"names-{digest}.json")
    try:
        with open(path, encoding="utf-8") as file:
            known = [str(name) for name in json.load(file)]
        if time.time() - os.stat(path).st_mtime < CACHED_S:
            return known
    except (OSError, ValueError, TypeError):
        known = []
    try:
        found = sorted(filter(_SAFE.fullmatch, ask(wanted.kind, wanted.servers)))
    except (OSError, EOFError, ValueError, struct.error, IndexError):  # no answer, or not a broker's
        return known
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        temporary = f"{path}.{os.getpid()}"
        with open(temporary, "w", encoding="utf-8") as file:
            json.dump(found, file)
        os.replace(temporary, path)
    except OSError:  # then the next press asks again
        pass
    return found


def ask(kind: str, servers: str) -> list[str]:
    """Ask brokers for the names of one kind.

    Raises:
        OSError, EOFError, ValueError, struct.error, IndexError: there is no answer, or none that can be read.
    """
    error: Exception = OSError("no address")
    for server in servers.split(","):
        host, _, port = server.strip().rpartition(":")
        try:
            brokers, topics = _metadata(host.strip("[]"), int(port))
        except (OSError, EOFError) as reason:
            error = reason
            continue
        if kind == "topics":
            return topics
        names: list[str] = []
        for broker in brokers:
            try:
                names += _groups(*broker) if kind == "groups" else _transactional_ids(*broker)
            except (OSError, EOFError):  # the names that the other brokers have are better than none
                continue
        return names
    raise error


class _Answer:
    """Reads an answer, field by field."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._position = 0

    def skip(self, size: int) -> None:
        """Pass over some bytes."""
        self._position += size

    def i16(self) -> int:
        """The next number of two bytes."""
        [value] = _I16.unpack_from(self._content, self._position)
        self._position += _I16.size
        return int(value)

    def i32(self) -> int:
        """The next number of four bytes."""
        [value] = _I32.unpack_from(self._content, self._position)
        self._position += _I32.size
        return int(value)

    def text(self) -> str:
        """The next text; empty for none."""
        size = max(0, self.i16())
        self._position += size
        return self._content[self._position - size : self._position].decode()

    def varint(self) -> int:
        """The next number of varying length."""
        value = shift = 0
        while True:
            byte = self._content[self._position]
            self._position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def compact_text(self) -> str:
        """The next text whose length is a number of varying length."""
        size = max(0, self.varint() - 1)
        self._position += size
        return self._content[self._position - size : self._position].decode()

    def skip_tags(self) -> None:
        """Pass over the tagged fields at the end of a flexible structure."""
        for _ in range(self.varint()):
            self.varint()
            self.skip(self.varint())


def _metadata(host: str, port: int) -> tuple[list[tuple[str, int]], list[str]]:
    """The addresses of the brokers, and the names of the topics."""
    answer = _exchange(host, port, _METADATA, _METADATA_VERSION, _I32.pack(-1) + b"\0")
    answer.skip(_I32.size)  # the throttle time
    brokers = []
    for _ in range(answer.i32()):
        answer.skip(_I32.size)
        brokers.append((answer.text(), answer.i32()))
        answer.text()
    answer.text()
    answer.skip(_I32.size)
    topics = []
    for _ in range(answer.i32()):
        error, name = answer.i16(), answer.text()
        answer.skip(1)  # whether it is internal
        if not error:
            topics.append(name)
        for _ in range(answer.i32()):
            answer.skip(_I16.size + 2 * _I32.size)
            for _ in range(2):
                answer.skip(answer.i32() * _I32.size)
    return brokers, topics


def _groups(host: str, port: int) -> list[str]:
    answer = _exchange(host, port, _LIST_GROUPS, _LIST_GROUPS_VERSION, b"")
    answer.skip(_I32.size + _I16.size)
    names = []
    for _ in range(answer.i32()):
        names.append(answer.text())
        answer.text()
    return names


def _transactional_ids(host: str, port: int) -> list[str]:
    """The ids that a broker coordinates. All versions of the request are flexible: its header and its body end with their tagged fields."""
    no_tags, no_filter = b"\0", b"\1"
    body = no_tags + no_filter + no_filter + no_tags
    answer = _exchange(host, port, _LIST_TRANSACTIONS, _LIST_TRANSACTIONS_VERSION, body)
    answer.skip_tags()  # of the header
    answer.skip(_I32.size + _I16.size)
    for _ in range(answer.varint() - 1):
        answer.compact_text()
    names = []
    for _ in range(answer.varint() - 1):
        names.append(answer.compact_text())
        answer.skip(_I64_SIZE)
        answer.compact_text()
        answer.skip_tags()
    return names


def _exchange(host: str, port: int, api_key: int, version: int, body: bytes) -> _Answer:
    frame = _REQUEST.pack(_REQUEST.size - _I32.size + len(body), api_key, version, 0, 3, b"esp") + body
    with socket.create_connection((host, port), _TIMEOUT_S) as connection:
        connection.sendall(frame)
        [size] = _I32.unpack(_receive(connection, _I32.size))
        if not _I32.size <= size <= _ANSWER_SIZE_MAX:
            raise ValueError(f"an answer of {size} bytes")
        answer = _Answer(_receive(connection, size))
    answer.skip(_I32.size)  # the correlation id
    return answer


def _receive(connection: socket.socket, size: int) -> bytes:
    parts = []
    while size:
        part = connection.recv(min(size, 1 << 16))
        if not part:
            raise EOFError
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
