"""Looks at brokers, has them emptied, and takes them off the books.

Sends a broker a request that kafka-python does not know, on a connection of its own.
"""

import io
import socket
import struct
from collections.abc import Iterable
from functools import partial
from typing import Any, ClassVar, Final

from kio.schema.types import BrokerId
from kio.schema.unregister_broker.v0.request import UnregisterBrokerRequest

from esp.cli.kafka.answers import QuorumInfo, RefusedError
from esp.cli.kafka.client import CONNECT_TIMEOUT_S, ask_for_quorum, check_code, no_broker, parse_servers
from esp.cli.kafka.command_config import SASL_LOGIN, TOKEN_PROVIDER, settings_for
from esp.cli.kafka.configs import ResourceType
from esp.cli.kafka.library import DescribeConfigsRequest, IncrementalAlterConfigsRequest
from esp.cli.kafka.login import log_in
from esp.cli.kafka.reassignments import ReassignmentsAdmin
from esp.model.errors import ErrorCode, OperatorError
from esp.protocol.errors import DecodeError
from esp.protocol.headers import read_response_header
from esp.protocol.messages import decode_response, encode_request
from esp.rebalance.cluster import ALL_BROKERS, ConfigTarget
from esp.settings.node import load_broker_settings
from esp.settings.rebalance import DRAINING, REMOVAL_FORCED

ANSWER_TIMEOUT_S: Final = 60.0
ANSWER_BYTES_MAX: Final = 100 * 1024 * 1024
LOGIN_ANSWER_BYTES_MAX: Final = 524_288
"""The longest answer that is taken before the log-in is complete."""
_CLIENT_ID: Final = "esp"
_LENGTH: Final = struct.Struct(">i")


def call(servers: str, request: Any, answer_timeout_s: float = ANSWER_TIMEOUT_S) -> Any:
    """Send one of kio's requests to the first broker that takes connections, and return its answer; nothing is sent twice.

    Args:
        servers: bootstrap servers, ``HOST:PORT`` separated by commas.
        request: any of the requests that change nothing, or of those that may be refused.
        answer_timeout_s: the time for which each answer is waited for.

    Raises:
        OperatorError: none listens, or it does not answer.
    """
    reasons: list[str] = []
    for host, port in parse_servers(servers):
        try:
            connection = _connect(host, port)
        except OSError as error:
            reasons.append(error.strerror or str(error))
            continue
        with connection:
            connection.settimeout(answer_timeout_s)
            try:
                settings = settings_for({SASL_LOGIN: None, TOKEN_PROVIDER: None})
                if SASL_LOGIN in settings:
                    exchange = partial(_exchange, connection, answer_bytes_max=LOGIN_ANSWER_BYTES_MAX)
                    log_in(settings[SASL_LOGIN], settings.get(TOKEN_PROVIDER), exchange, f"{host}:{port}")
                return _exchange(connection, request)
            except (OSError, EOFError, DecodeError) as error:
                raise OperatorError(
                    f"the broker at {host}:{port} did not answer: {str(error) or 'it ended the connection'}",
                    "The request may have been carried out: check, then repeat it if necessary.",
                ) from error
    raise no_broker(servers, reasons)


def broker_address(host: str, port: int) -> str:
    """Return ``HOST:PORT``, as options for bootstrap servers take it."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _connect(host: str, port: int) -> socket.socket:
    """Return a connection, encrypted if the command's settings ask for that. Raises OSError."""
    connection = socket.create_connection((host, port), CONNECT_TIMEOUT_S)
    context = settings_for({"ssl_context": None}).get("ssl_context")
    if context is None:
        return connection
    try:
        encrypted: socket.socket = context.wrap_socket(connection, server_hostname=host)
    except BaseException:
        connection.close()
        raise
    return encrypted


def _exchange(connection: socket.socket, request: Any, *, answer_bytes_max: int = ANSWER_BYTES_MAX) -> Any:
    api_key, version = request.__api_key__, request.__version__
    connection.sendall(encode_request(api_key, version, 0, _CLIENT_ID, request))
    with connection.makefile("rb") as stream:
        size = _LENGTH.unpack(_read(stream, _LENGTH.size))[0]
        if not 0 <= size <= answer_bytes_max:
            raise DecodeError(f"an answer of {size} bytes is outside 0..{answer_bytes_max}")
        answer = _read(stream, size)
    _, position = read_response_header(answer, api_key, version)
    return decode_response(api_key, version, memoryview(answer)[position:])


def _read(stream: io.BufferedReader, size: int) -> bytes:
    found = stream.read(size)
    if len(found) < size:
        raise EOFError
    return found


_SET = 0
_NO_BOOLEAN = "perhaps"
_MODE = "rebalance.mode"


class BrokersAdmin(ReassignmentsAdmin):
    """The brokers of a cluster, with what they hold; see :class:`~esp.cli.kafka.client.AdminConnection`."""

    asks_all: ClassVar = True

    def quorum(self) -> QuorumInfo:
        """The metadata quorum as its leader sees it.

        Raises:
            NoControllerError: no controller answers.
        """
        found: QuorumInfo = self._ask(ask_for_quorum)
        return found

    def draining(self, brokers: Iterable[int]) -> set[int]:
        """The brokers among these that are being drained, as far as they answer. Kafka has nothing of the kind."""
        found = set()
        for broker in brokers:
            target = ConfigTarget(broker=str(broker))
            try:
                told = self.settings([target], [DRAINING])
            except OperatorError:  # it has died since
                continue
            if told[target].get(DRAINING) == "true":
                found.add(broker)
        return found

    def knows_draining(self, broker: int) -> bool:
        """True if brokers of this cluster can be drained by a setting: a broker that knows it refuses an invalid value. Changes nothing."""
        request = IncrementalAlterConfigsRequest(
            resources=[(ResourceType.BROKER.value, str(broker), [(DRAINING, _SET, _NO_BOOLEAN)])], validate_only=True
        )
        [told] = self._ask(partial(_send, request, broker)).to_dict()["responses"]
        return bool(told["error_code"] != ErrorCode.none)

    def self_repair_mode(self, broker: int) -> str:
        """The active controller's mode of self-repair (``rebalance.mode``), as a broker of a cluster that knows draining reports it."""
        request = DescribeConfigsRequest(
            resources=[(ResourceType.BROKER.value, str(broker), [_MODE])],
            include_synonyms=False,
            include_documentation=False,
        )
        [told] = self._ask(partial(_send, request, broker)).to_dict()["results"]
        check_code(told["error_code"], told["error_message"])
        given = [each["value"] for each in told["configs"]]
        return str(given[0]) if given else load_broker_settings(None).rebalance_mode

    def drain(self, broker: int) -> None:
        """Have a broker that serves emptied, and given no new replicas."""
        self._set(ConfigTarget(broker=str(broker)), DRAINING, "true")

    def undrain(self, broker: int) -> None:
        """Let a broker have replicas again."""
        self._set(ConfigTarget(broker=str(broker)), DRAINING, None)

    def force_removal(self, broker: int) -> None:
        """Let a broker be unregistered whatever goes with it (BRK-10). Kafka has nothing of the kind, and needs it not."""
        there = self.settings([ALL_BROKERS], [REMOVAL_FORCED])[ALL_BROKERS].get(REMOVAL_FORCED, "")
        ids = [*filter(None, there.split(",")), str(broker)]
        self._set(ALL_BROKERS, REMOVAL_FORCED, ",".join(dict.fromkeys(ids)))

    def unregister(self, broker: int) -> None:
        """Have a broker forgotten.

        Raises:
            RefusedError: the controller refused.
        """
        answer = call(self._servers, UnregisterBrokerRequest(broker_id=BrokerId(broker)))
        check_code(answer.error_code.value, answer.error_message)

    def _set(self, target: ConfigTarget, name: str, value: str | None) -> None:
        for problem in self.change_settings({target: {name: value}}).values():
            raise RefusedError(ErrorCode.invalid_request, problem)


def _send(request: Any, node_id: int | None, client: Any) -> Any:
    return client.send(request, node_id)
