import pytest

from esp.broker.connections.connection_limits import ConnectionCounts, ConnectionLimits, connection_limits
from esp.settings.addresses import ListenerLimits
from esp.settings.node import load_broker_settings

LIMITS = ConnectionLimits(total=5, per_ip=2, idle_max_ms=-1, frame_max_bytes=1000)


def test_an_address_may_have_a_limit_of_its_own():
    counts = ConnectionCounts(LIMITS._replace(of_ips={"192.0.2.1": 1, "192.0.2.2": 3}))
    for _ in range(2):
        assert counts.find_excess("L", "192.0.2.2") is None
        counts.add("L", "192.0.2.2")
    counts.add("L", "192.0.2.1")
    assert counts.find_excess("L", "192.0.2.1") == "max.connections.per.ip"
    assert counts.find_excess("L", "192.0.2.2") is None
    counts.add("L", "192.0.2.2")
    assert counts.find_excess("L", "192.0.2.2") == "max.connections.per.ip"
    counts.add("L", "192.0.2.3")
    assert counts.find_excess("L", "192.0.2.4") == "max.connections"
    counts.remove("L", "192.0.2.1")
    assert counts.find_excess("L", "192.0.2.4") is None
    assert set(counts.addresses) == {"192.0.2.2", "192.0.2.3"}


def test_a_listener_may_have_limits_of_its_own():
    counts = ConnectionCounts(LIMITS._replace(of_listeners={"L": ListenerLimits(max_connections=1)}))
    counts.add("L", "192.0.2.1")
    assert counts.find_excess("L", "192.0.2.2") == "max.connections of listener L"
    assert counts.find_excess("M", "192.0.2.2") is None


def test_a_listener_above_a_rate_pauses_for_a_window_at_most():
    counts = ConnectionCounts(LIMITS._replace(of_listeners={"L": ListenerLimits(creation_rate=2)}))
    assert [counts.pause_ms("L", 1000) for _ in range(21)] == [0] * 20 + [500]
    assert [counts.pause_ms("L", 1000) for _ in range(5)][-1] == 1000
    assert counts.pause_ms("M", 1000) == 0
    assert counts.pause_ms("L", 1000 + 26_000) == 0


def test_the_rate_of_the_node_counts_all_listeners():
    counts = ConnectionCounts(LIMITS._replace(creation_rate=1))
    assert [counts.pause_ms(name, 1000) for name in "LMLMLMLMLM"] == [0] * 10
    assert counts.pause_ms("L", 1000) == 1000


def test_a_rate_of_zero_lets_one_connection_in_per_window():
    counts = ConnectionCounts(LIMITS._replace(creation_rate=0, of_listeners={"L": ListenerLimits(creation_rate=0)}))
    assert [counts.pause_ms(name, 1000) for name in "LM"] == [1000, 1000]


def test_other_brokers_are_bound_by_the_limits_of_their_listener_alone():
    limits = LIMITS._replace(total=2, creation_rate=1, between_brokers="B")
    counts = ConnectionCounts(limits._replace(of_listeners={"B": ListenerLimits(max_connections=2)}))
    for ip in ("192.0.2.1", "192.0.2.2"):
        assert not counts.takes_a_place("B")
        counts.add("L", ip)
    assert counts.find_excess("L", "192.0.2.3") == "max.connections"
    assert not counts.takes_a_place("L")
    for ip in ("192.0.2.3", "192.0.2.4"):
        assert counts.find_excess("B", ip) is None
        assert counts.takes_a_place("B")
        counts.add("B", ip)
    assert counts.find_excess("B", "192.0.2.5") == "max.connections of listener B"
    assert [counts.pause_ms("B", 1000) for _ in range(20)] == [0] * 20
    assert [counts.pause_ms("L", 1000) for _ in range(10)] == [0] * 10, "brokers take nothing of the rate of clients"
    assert counts.pause_ms("L", 1000) == 1000


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ("listeners=C://:9092,I://:9093,CONTROLLER://:9094\ninter.broker.listener.name=I\n", "I"),
        ("listeners=C://:9092,CONTROLLER://:9094\ninter.broker.listener.name=C\n", None),
    ],
)
def test_brokers_have_a_listener_of_their_own_if_clients_have_another(settings, name):
    protocols = "listener.security.protocol.map=C:PLAINTEXT,I:PLAINTEXT,CONTROLLER:PLAINTEXT\n"
    made = load_broker_settings(settings + protocols + "controller.listener.names=CONTROLLER\n")
    assert connection_limits(made).between_brokers == name


def test_limits_are_those_of_the_settings():
    settings = load_broker_settings(
        "listeners=CLIENTS://:9092,INTERNAL://:9093,CONTROLLER://:9094\n"
        "listener.security.protocol.map=CLIENTS:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT\n"
        "controller.listener.names=CONTROLLER\n"
        "inter.broker.listener.name=INTERNAL\n"
        "listener.name.clients.max.connections=7\n"
        "listener.name.clients.max.connection.creation.rate=8\n"
        "max.connections.per.ip.overrides=192.0.2.1:5, 2001:db8::1:6\n"
        "max.connection.creation.rate=9\n"
        "quota.window.num=3\n"
    )
    limits = connection_limits(settings)
    assert limits.of_listeners == {"CLIENTS": ListenerLimits(7, 8)}
    assert limits.of_ips == {"192.0.2.1": 5, "2001:db8::1": 6}
    assert (limits.creation_rate, limits.windows) == (9, (3, 1))
