from esp.broker.connections.connection_limits import ConnectionCounts, ConnectionLimits, connection_limits
from esp.settings.broker import ListenerLimits
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
