import socket

from esp.testing.ports import HIGHEST, LOWEST, free_port


def test_no_port_is_given_twice_while_there_are_others():
    ports = [free_port() for _ in range(1000)]
    assert len(set(ports)) == len(ports)
    assert all(LOWEST <= port <= HIGHEST for port in ports)


def test_a_port_that_something_listens_on_is_not_given(monkeypatch):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", free_port()))
        taken.listen()
        port = taken.getsockname()[1]
        monkeypatch.setattr("esp.testing.ports._candidates", lambda _share: iter([port, port + 1, port + 2]))
        assert free_port() in {port + 1, port + 2}
