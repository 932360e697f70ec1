import esp.replication.transaction_clients as module
from esp.replication.transaction_clients import TransactionClient, TransactionClients

OURS = TransactionClient("ours", "127.0.0.1")
THEIRS = TransactionClient(None, "::1")


def test_a_client_is_known_until_the_marker_of_its_producer():
    clients = TransactionClients()
    clients.note(7, 0, OURS)
    clients.note(8, 2, THEIRS)
    assert [clients.find(7, 0), clients.find(8, 2), clients.find(9, 0)] == [OURS, THEIRS, None]
    clients.end(7)
    clients.end(9)
    assert [clients.find(7, 0), clients.find(8, 2)] == [None, THEIRS]


def test_a_client_of_another_epoch_is_not_the_one_that_began_the_open_transaction():
    clients = TransactionClients()
    clients.note(7, 0, OURS)
    clients.note(7, 1, THEIRS)
    assert clients.find(7, 0) is None
    assert clients.find(7, 1) == THEIRS


def test_the_oldest_of_too_many_is_forgotten(monkeypatch):
    monkeypatch.setattr(module, "CLIENTS_MAX", 2)
    clients = TransactionClients()
    for producer_id in (1, 2, 2, 3):
        clients.note(producer_id, 0, OURS)
    assert [clients.find(each, 0) for each in (1, 2, 3)] == [None, OURS, OURS]
