"""A client of a simulated node that logs in step by step, or does not."""

import asyncio
import struct
from types import MappingProxyType

from esp.authentication.scram import ScramClient
from esp.model.sasl import BY_PASSWORD, SaslMechanism, SaslPolicy
from esp.model.scram_keys import salted_password
from esp.protocol.registry import ApiKey
from tests.unit.broker.conversation import metadata
from tests.unit.broker.guarded_node import ask
from tests.unit.broker.simulated_node import ADDRESS, Client, RefusedError, model

PLAIN, SCRAM_256, SCRAM_512 = BY_PASSWORD
LOGIN = b"\0alice\0alice-secret"
WRONG = b"\0alice\0wrong"


def policy(**changes) -> SaslPolicy:
    terms = {
        "listener": "PLAINTEXT",
        "mechanisms": BY_PASSWORD,
        "plain_users": {"alice": "alice-secret", "bob": "bob-secret"},
    }
    lifetime_ms = changes.pop("lifetime_ms", 0)
    return SaslPolicy(**{**terms, "max_reauth_ms": dict.fromkeys(BY_PASSWORD, lifetime_ms), **changes})


def with_sasl(**changes):
    """Settings of a simulated node whose listener for clients has SASL."""
    return {"sasl": MappingProxyType({"PLAINTEXT": policy(**changes)})}


async def ask_versions(client: Client, version: int = 4):
    message = model(ApiKey.API_VERSIONS, version).Request(client_software_name="a", client_software_version="1")
    return await client.call(ApiKey.API_VERSIONS, version, message)


async def handshake(client: Client, mechanism: str = "PLAIN", version: int = 1):
    message = model(ApiKey.SASL_HANDSHAKE, version).Request(mechanism=mechanism)
    return await client.call(ApiKey.SASL_HANDSHAKE, version, message)


async def authenticate(client: Client, data: bytes = LOGIN, version: int = 2):
    message = model(ApiKey.SASL_AUTHENTICATE, version).Request(auth_bytes=data)
    return await client.call(ApiKey.SASL_AUTHENTICATE, version, message)


async def log_in(client: Client, data: bytes = LOGIN):
    """Log in by PLAIN, and return the last answer."""
    assert (await handshake(client)).error_code == 0
    return await authenticate(client, data)


async def log_in_by_scram(client: Client, mechanism: SaslMechanism, user: str, password: str):
    """Log in by SCRAM, and return the last answer."""
    assert (await handshake(client, mechanism.value)).error_code == 0
    mine = ScramClient(mechanism.scram, user, password, "nonce")
    challenge = await authenticate(client, mine.first_message())
    assert challenge.error_code == 0, "the first message does not tell whether there is such a user"
    answer = await authenticate(client, mine.on_server_first(challenge.auth_bytes))
    if answer.error_code == 0:
        mine.on_server_final(answer.auth_bytes)
    return answer


async def ask_metadata(client: Client):
    return await metadata(client)


class TokenClient(Client):
    """Sends and receives frames that have no header."""

    def __init__(self) -> None:
        super().__init__()
        self.frames: list[bytes] = []

    @classmethod
    async def connect(cls, node) -> "TokenClient":
        client = cls()
        client.connection = await node.network.connect(ADDRESS, client.on_open, 1_000_000)
        return client

    def on_bytes(self, received):
        if self._waiting:
            return super().on_bytes(received)
        self._buffer += bytes(received)
        while len(self._buffer) >= 4 and len(self._buffer) >= 4 + (length := struct.unpack(">i", self._buffer[:4])[0]):
            self.frames.append(self._buffer[4 : 4 + length])
            self._buffer = self._buffer[4 + length :]
        return len(received)

    async def exchange(self, data: bytes) -> bytes | None:
        """Send a token and return the answer; None if the connection ends instead."""
        self.connection.write([token(data)])
        for _ in range(1000):
            if self.frames or self.closed:
                break
            await asyncio.sleep(0.01)
        return self.frames.pop(0) if self.frames else None


async def add_user(
    node, user: str, password: str, mechanism: SaslMechanism = SCRAM_256, iterations: int = 4096
) -> None:
    """Add a user of SCRAM, by the listener of controllers, which has no SASL."""
    client = await node.client(node.node.controller.listening[0])
    kind = mechanism.scram
    upsertion = {
        "name": user,
        "mechanism": kind,
        "iterations": iterations,
        "salt": b"salt-of-" + user.encode(),
        "salted_password": salted_password(kind, password, b"salt-of-" + user.encode(), iterations),
    }
    answer = await ask(client, ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, deletions=[], upsertions=[upsertion])
    assert [result.error_code for result in answer.results] == [0]
    client.close()


def token(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


async def is_closed(client: Client, within_s: float = 1.0) -> bool:
    """True if the connection ends in time."""
    for _ in range(100):
        if client.closed:
            return True
        await asyncio.sleep(within_s / 100)
    return client.closed


async def ends_without_answer(answer) -> bool:
    """True if the connection ends, and the answer does not come."""
    try:
        await answer
    except RefusedError:
        return True
    return False
