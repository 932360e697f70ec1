"""Stores that change while their listener is there."""

import asyncio
import ssl
import time

import pytest
import uvloop

from esp.model.errors import OperatorError
from esp.model.tls import ClientAuth, KeyStore, StoreType, TlsPolicy, TrustStore
from esp.runtime.buffer_sweeper import BufferSweeper
from esp.runtime.tls.endpoint import TlsEndpoint
from esp.runtime.tls.tls_connection import TlsParts
from esp.runtime.transfer_turns import TransferTurns
from tests.models.certificates import Authority

AUTHORITY = Authority()


@pytest.fixture
def made(tmp_path):
    """Makes an endpoint whose files are the test's to change."""

    def make(**options):
        AUTHORITY.issue("CN=node").write_pem(tmp_path / "node.pem")
        AUTHORITY.write_pem(tmp_path / "ca.pem")
        policy = TlsPolicy(
            "OUT",
            KeyStore(StoreType.PEM, str(tmp_path / "node.pem")),
            TrustStore(StoreType.PEM, str(tmp_path / "ca.pem")),
            **options,
        )
        return TlsEndpoint(policy, TlsParts(BufferSweeper(), TransferTurns()))

    return make


def reload(endpoint):
    assert endpoint.read_changes_blocking() is None, "the change has not settled yet"
    return endpoint.read_changes_blocking()


def agree(server: ssl.SSLContext, client: ssl.SSLContext) -> ssl.SSLObject:
    """Let the ends agree in memory; return the client's."""
    here, _ = agree_both(server, client)
    return here


def agree_both(server: ssl.SSLContext, client: ssl.SSLContext) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """Let the ends agree in memory; return the client's and the server's."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    here = client.wrap_bio(to_client, to_server, server_hostname="127.0.0.1")
    there = server.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(4):
        for end in (here, there):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return here, there


def test_a_new_pair_is_taken(made, tmp_path):
    endpoint = made()
    renewed = AUTHORITY.issue("CN=node")
    renewed.write_pem(tmp_path / "node.pem")
    contexts = reload(endpoint)
    assert agree(contexts.server, endpoint.contexts.client).getpeercert(binary_form=True) == renewed.der
    assert endpoint.read_changes_blocking() is None


@pytest.mark.parametrize(
    ("name", "hosts", "words"),
    [
        ("CN=other", ["127.0.0.1", "localhost"], "its certificate is CN=other, but the present one is CN=node"),
        ("CN=node", ["127.0.0.1"], "its certificate is not for localhost"),
    ],
)
def test_a_certificate_of_another_node_is_refused_aloud_unless_that_is_allowed(
    made, tmp_path, caplog, name, hosts, words
):
    lax = made(allows_other_subject=True, allows_other_hosts=True)
    strict = made()
    assert reload(lax) is not None, "the files were written again, for the same node"
    AUTHORITY.issue(name, hosts=hosts).write_pem(tmp_path / "node.pem")
    assert reload(strict) is None
    [record] = [record for record in caplog.records if record.levelname == "ERROR"]
    assert words in record.getMessage()
    assert "stay in force" in record.getMessage()
    assert reload(lax) is not None


def test_files_that_cannot_be_used_are_refused_and_their_repair_is_taken(made, tmp_path, caplog):
    endpoint = made()
    (tmp_path / "node.pem").write_text("half")
    assert reload(endpoint) is None
    assert "there are 0 private keys in it" in caplog.text
    AUTHORITY.issue("CN=node").write_pem(tmp_path / "node.pem")
    assert reload(endpoint) is not None


def test_a_revocation_list_that_is_added_counts_for_new_connections(made, tmp_path):
    endpoint = made(client_auth=ClientAuth.REQUIRED)
    carol = AUTHORITY.issue("CN=carol")
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.load_verify_locations(cadata=AUTHORITY.pem)
    client.load_cert_chain(carol.write_pem(tmp_path / "carol.pem"))
    agree(endpoint.contexts.server, client)
    (tmp_path / "ca.pem").write_text(AUTHORITY.pem + AUTHORITY.revoke(carol).revocations_pem())
    contexts = reload(endpoint)
    with pytest.raises(ssl.SSLError, match="certificate revoked"):
        agree(contexts.server, client)


def test_nodes_whose_trust_store_does_not_believe_their_own_key_store_do_not_start(made, tmp_path):
    made()
    Authority("CN=Other CA").write_pem(tmp_path / "ca.pem")
    policy = TlsPolicy(
        "OUT",
        KeyStore(StoreType.PEM, str(tmp_path / "node.pem")),
        TrustStore(StoreType.PEM, str(tmp_path / "ca.pem")),
        is_between_nodes=True,
    )
    with pytest.raises(OperatorError, match="does not believe its own key store"):
        TlsEndpoint(policy, TlsParts(BufferSweeper(), TransferTurns()))


def test_files_are_read_at_once_when_that_is_asked_for(made, tmp_path):
    async def body():
        endpoint = made()
        renewed = AUTHORITY.issue("CN=node")
        renewed.write_pem(tmp_path / "node.pem")
        before = endpoint.contexts
        await endpoint.reload(validate_only=True)
        assert endpoint.contexts is before
        await endpoint.reload(validate_only=False)
        taken = endpoint.contexts
        assert agree(taken.server, before.client).getpeercert(binary_form=True) == renewed.der
        AUTHORITY.issue("CN=other").write_pem(tmp_path / "node.pem")
        with pytest.raises(OperatorError, match="its certificate is CN=other"):
            await endpoint.reload(validate_only=False)
        assert endpoint.contexts is taken

    asyncio.run(body())


def test_the_looks_end_with_the_loop_though_its_threads_are_still_busy(made, monkeypatch):
    monkeypatch.setattr("esp.runtime.tls.endpoint.WATCH_S", 0.01)
    endpoint, unhandled = made(), []

    async def serve():
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _loop, context: unhandled.append(context))
        endpoint.watch()
        await asyncio.sleep(0.05)
        loop.run_in_executor(None, time.sleep, 0.1)

    uvloop.run(serve())
    assert not unhandled


def test_an_error_of_a_look_reaches_the_loop(made, monkeypatch):
    monkeypatch.setattr("esp.runtime.tls.endpoint.WATCH_S", 0.01)
    endpoint = made()
    monkeypatch.setattr(endpoint, "read_changes_blocking", lambda: 1 // 0)

    async def serve():
        told = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: told.set_result(context))
        endpoint.watch()
        return await asyncio.wait_for(told, 10)

    assert isinstance(uvloop.run(serve())["exception"], ZeroDivisionError)
