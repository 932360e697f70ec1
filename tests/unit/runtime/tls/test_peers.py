"""Connections end with the certificates of their peers."""

from datetime import UTC, datetime, timedelta

import pytest

from esp.runtime.tls.peers import Peers
from esp.runtime.tls.stores import Trust
from tests.models.certificates import Authority

AUTHORITY = Authority()
CAROL = AUTHORITY.issue("CN=carol")
DAVE = AUTHORITY.issue("CN=dave", ends=datetime.now(UTC) + timedelta(hours=1))
ROOT = AUTHORITY.certificate_der
OLD, NEW = Trust(b"old", has_revocations=False), Trust(b"new", has_revocations=False)


class Connection:
    def __init__(self):
        self.is_ended = False

    def abort(self):
        self.is_ended = True


@pytest.fixture
def peers():
    return Peers("SSL")


def connect(peers, issued, trust=OLD):
    connection = Connection()
    peers.add(connection, (issued.der, ROOT), trust)
    return connection


def test_connections_end_with_a_certificate_of_their_chain(peers, caplog):
    carols, daves = connect(peers, CAROL), [connect(peers, DAVE), connect(peers, DAVE)]
    peers.end_expired(DAVE.certificate.not_valid_after_utc - timedelta(seconds=1))
    assert not any(each.is_ended for each in daves)
    peers.end_expired(DAVE.certificate.not_valid_after_utc)
    assert all(each.is_ended for each in daves)
    assert "ends 2 connections of CN=dave: a certificate of its chain has ended" in caplog.text
    assert peers.ended == 2
    assert not carols.is_ended
    peers.end_expired(AUTHORITY.certificate.not_valid_after_utc)
    assert carols.is_ended


def test_a_subject_forges_no_line_of_the_log(peers, caplog):
    connect(peers, AUTHORITY.issue("CN=eve\nWARNING all is well"))
    peers.end_expired(AUTHORITY.certificate.not_valid_after_utc)
    assert len(caplog.messages) == 1
    assert "\n" not in caplog.messages[0]
    assert r"CN=eve\nWARNING all is well" in caplog.messages[0]


def test_a_chain_is_held_against_each_store_once(peers):
    connect(peers, CAROL)
    assert peers.not_held_against(OLD) == []
    assert peers.not_held_against(NEW) == [(CAROL.der, ROOT)]
    peers.set_held_against(NEW, peers.not_held_against(NEW))
    assert peers.not_held_against(NEW) == []


def test_a_connection_that_became_secure_by_an_older_store_is_looked_at_again(peers):
    connect(peers, CAROL, NEW)
    connect(peers, CAROL, OLD)
    assert peers.not_held_against(NEW) == [(CAROL.der, ROOT)]


def test_the_connections_of_a_refused_chain_end_and_the_others_go_on(peers):
    carols, daves = connect(peers, CAROL), connect(peers, DAVE)
    peers.end({(CAROL.der, ROOT): "revoked", (CAROL.der,): "a chain that no connection rests on any more"})
    assert (carols.is_ended, daves.is_ended) == (True, False)


def test_nothing_is_kept_of_connections_that_have_ended(peers):
    carols = connect(peers, CAROL)
    peers.discard(carols)
    peers.discard(carols)
    assert peers.not_held_against(NEW) == []
    peers.end_expired(AUTHORITY.certificate.not_valid_after_utc)
    assert not carols.is_ended


VERSION_3, VERSION_4 = b"\xa0\x03\x02\x01\x02", b"\xa0\x03\x02\x01\x03"


@pytest.mark.parametrize("der", [b"\x30\x03\x02\x01\x00", CAROL.der.replace(VERSION_3, VERSION_4, 1)])
def test_a_certificate_whose_end_cannot_be_read_is_refused(peers, caplog, der):
    with pytest.raises(ConnectionAbortedError):
        peers.add(Connection(), (der,), OLD)
    assert "refuses a certificate that cannot be read" in caplog.text
