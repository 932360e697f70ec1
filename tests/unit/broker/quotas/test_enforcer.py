"""Requests are counted against the quotas of their clients, told how long to wait, and their connections muted."""

import asyncio
from functools import partial
from types import SimpleNamespace

from esp.broker.quotas.enforcer import QuotaEnforcer
from esp.broker.quotas.uses import USED_MAX
from esp.broker.request import LATER, NEVER, ClientContext, Request
from esp.broker.tasks import Tasks
from esp.model.client_quotas import client_alone, ip_alone, user_alone
from esp.ports.network import Address
from esp.protocol.messages import decode_response, encode_response, load_class
from esp.protocol.produce_codec import ProduceResult, encode_produce_response
from esp.protocol.registry import SERVED, ApiKey
from esp.settings.broker import BrokerSettings
from tests.unit.protocol.hostile import example

PRODUCE = "producer_byte_rate"


class Clock:
    def __init__(self):
        self.now_us = 1_000_000

    def monotonic_us(self):
        return self.now_us


class Shortcut:
    body_offset = 12

    def __init__(self, answer):
        self.given = answer

    def answer(self, frame):
        return self.given


class Node:
    """An enforcer, its clients, and a dispatcher that answers as it is told."""

    def __init__(self, **quotas):
        self.clock = Clock()
        self.clients = []
        self.tasks = Tasks(SimpleNamespace())
        self.enforcer = QuotaEnforcer(self.clock, BrokerSettings(), self.tasks, lambda: self.clients)
        self.takes_us = 0
        self.answer = (encode_produce_response(9, 1, [ProduceResult("t", 0, 0, 0)]),)
        if quotas:
            self.enforcer.change({client_alone("c"): quotas})

    def connect(self, principal="User:ANONYMOUS"):
        client = ClientContext("L", Address("192.0.2.1", 1), principal)
        self.clients.append(client)
        return client

    def dispatch(self, request, body):
        self.clock.now_us += self.takes_us
        return self.answer(request) if callable(self.answer) else self.answer

    def ask(self, client, size, key=ApiKey.PRODUCE, version=9, client_id="c"):
        request = Request(key, version, 1, client_id, client, lambda at_once: None)
        return request, self.enforcer.handle(request, size, memoryview(b""), self.dispatch)


def told_ms(answer):
    return int.from_bytes(answer[0][-5:-1], "big")


def muted_ms(node, client):
    return (client.hold.muted_until_us - node.clock.now_us) // 1000


def test_a_producer_over_its_quota_is_told_and_muted_for_as_long():
    node = Node(producer_byte_rate=100)
    client = node.connect()
    assert told_ms(node.ask(client, 1000)[1]) == 0
    assert client.hold.muted_until_us == 0
    assert told_ms(node.ask(client, 200)[1]) == 2000
    assert muted_ms(node, client) == 2000


def test_only_clients_with_the_quota_are_counted():
    node = Node(producer_byte_rate=100)
    client = node.connect()
    for _ in range(5):
        assert told_ms(node.ask(client, 10_000, client_id="other")[1]) == 0
    assert told_ms(node.ask(client, 10_000)[1]) > 0


def test_requests_of_another_kind_have_no_bytes_to_produce():
    node = Node(producer_byte_rate=100)
    client = node.connect()
    node.ask(client, 10_000, key=ApiKey.METADATA, version=0)
    assert client.hold.muted_until_us == 0


def test_time_is_throttled_for_one_window_at_most():
    node = Node(request_percentage=1)
    client = node.connect()
    node.takes_us = 90_000
    assert told_ms(node.ask(client, 10)[1]) == 0  # 9 of 10 hundredths of a second
    node.takes_us = 200_000
    assert told_ms(node.ask(client, 10)[1]) == 1000  # 18,710 ms, if it were not for the window
    assert muted_ms(node, client) == 1000


def test_an_answer_that_comes_later_tells_what_is_left_of_the_time():
    node = Node(producer_byte_rate=100)
    client = node.connect()
    node.answer = LATER
    request, answer = node.ask(client, 1200)
    assert answer is LATER
    node.clock.now_us += 500_000
    request.reply((encode_produce_response(9, 1, [ProduceResult("t", 0, 0, 0)]),))
    assert told_ms(request.answer) == 1500


def test_an_answer_that_was_given_before_the_handler_returned_tells_it_too():
    node = Node(producer_byte_rate=100)

    def answer(request):
        request.reply((encode_produce_response(9, 1, [ProduceResult("t", 0, 0, 0)]),))
        return LATER

    node.answer = answer
    request, _ = node.ask(node.connect(), 1200)
    assert told_ms(request.answer) == 2000


def test_a_request_without_an_answer_is_counted():
    node = Node(producer_byte_rate=100)
    node.answer = NEVER
    client = node.connect()
    assert node.ask(client, 1200)[1] is NEVER
    assert muted_ms(node, client) == 2000


def test_any_answer_tells_the_time():
    node = Node(request_percentage=1)
    node.takes_us = 200_000
    api = SERVED[ApiKey.LIST_GROUPS]
    node.answer = (encode_response(api.key, 4, 1, example(load_class(api, api.response_model(4), "response"))),)
    _, answer = node.ask(node.connect(), 50, key=ApiKey.LIST_GROUPS, version=4)
    decoded = decode_response(ApiKey.LIST_GROUPS, 4, memoryview(answer[0])[9:])
    assert decoded.throttle_time.total_seconds() == 1


def test_brokers_are_not_counted():
    node = Node(producer_byte_rate=100, request_percentage=0.01)
    node.takes_us = 100_000
    client = node.connect()

    def fetch(request):
        request.client.is_broker = True
        return node_answer

    node_answer, node.answer = node.answer, fetch
    node.ask(client, 10_000)
    assert client.hold.muted_until_us == 0
    node.answer = node_answer
    other = node.connect()
    node.ask(other, 10_000, key=ApiKey.ADD_PARTITIONS_TO_TXN, version=4)
    node.ask(other, 10_000, key=ApiKey.WRITE_SHARE_GROUP_STATE, version=1)
    assert other.hold.muted_until_us == 0


REPEATED = memoryview(bytes(6) + (9).to_bytes(2, "big") + bytes(1000 - 8))


def with_shortcuts(node):
    """Let requests that repeat earlier ones be answered by a shortcut, on each connection that asks."""
    (given,) = node.answer

    def answer(request):
        request.client.shortcut = request.client.shortcut or Shortcut(given)
        return (given,)

    node.answer = answer
    return node


def repeated(client):
    return client.counter.answer(client.shortcut, REPEATED)


def test_what_a_shortcut_answers_is_counted():
    node = with_shortcuts(Node(producer_byte_rate=100))
    client = node.connect()
    node.ask(client, 100)
    assert told_ms((repeated(client),)) == (100 + 996 - 1000) * 10
    assert told_ms((repeated(client),)) == (100 + 2 * 996 - 1000) * 10  # the length of a frame is not counted
    node.enforcer.change({client_alone("c"): {PRODUCE: 1000.0}})
    assert client.shortcut is None


def test_what_a_shortcut_answers_is_not_counted_without_a_quota():
    node = with_shortcuts(Node(producer_byte_rate=100))
    client = node.connect()
    node.ask(client, 2000)
    node.enforcer.change({})
    node.ask(client, 10)
    assert told_ms((repeated(client),)) == 0
    assert client.hold.muted_until_us == 0


def test_what_a_shortcut_answers_to_a_broker_is_not_counted():
    node = with_shortcuts(Node(producer_byte_rate=100))
    client = node.connect()
    node.ask(client, 2000)
    client.is_broker = True
    node.ask(client, 10)
    assert told_ms((repeated(client),)) == 0


def test_rates_that_are_forgotten_are_looked_up_again_before_a_shortcut_counts_by_them():
    node = with_shortcuts(Node())
    node.enforcer.change({client_alone(None): {PRODUCE: 100.0}})
    idle, busy = node.connect(), node.connect()
    node.ask(idle, 10, client_id="idle")
    for number in range(USED_MAX):
        node.ask(busy, 10, client_id=str(number))
    node.clock.now_us += 20_000_000
    node.ask(busy, 10, client_id="late")
    assert idle.shortcut is None
    node.ask(idle, 10, client_id="idle")
    assert told_ms((repeated(idle),)) == (10 + 996 - 1000) * 10


def test_changed_quotas_let_muted_connections_go_on_and_count_what_was_before():
    node = Node(producer_byte_rate=100)
    client = node.connect()
    node.ask(client, 5000)
    assert client.hold.muted_until_us > 0
    node.enforcer.change({client_alone("c"): {PRODUCE: 200.0}})
    assert client.hold.muted_until_us == 0
    assert told_ms(node.ask(client, 0)[1]) == 15_000
    node.enforcer.change({})
    assert told_ms(node.ask(client, 5000)[1]) == 0


def test_connections_of_a_user_share_its_quota():
    node = Node()
    node.enforcer.change({user_alone("alice"): {PRODUCE: 100.0}})
    first, second = node.connect("User:alice"), node.connect("User:alice")
    node.ask(first, 1000, client_id="x")
    assert told_ms(node.ask(second, 200, client_id="y")[1]) == 2000
    assert first.hold.muted_until_us == 0
    assert told_ms(node.ask(node.connect("User:bob"), 5000)[1]) == 0


def test_a_connection_that_is_authenticated_has_the_quotas_of_its_user():
    node = Node()
    node.enforcer.change({user_alone("alice"): {PRODUCE: 100.0}})
    client = node.connect()
    assert told_ms(node.ask(client, 5000)[1]) == 0
    client.principal = "User:alice"
    assert told_ms(node.ask(client, 1200)[1]) == 2000


def test_a_fetch_over_the_quota_is_not_sent_and_not_counted():
    node = Node(consumer_byte_rate=100)
    client = node.connect()
    node.ask(client, 10)
    assert client.meter.fetch_bytes_max() == 1000
    assert client.meter.charge_fetch(1000) == (0, True)
    assert client.meter.charge_fetch(200) == (2000, False)
    assert client.meter.charge_fetch(0) == (0, True)
    assert muted_ms(node, client) == 2000


def test_a_batch_larger_than_all_windows_is_sent_once_and_waited_for():
    node = Node(consumer_byte_rate=100)
    client = node.connect()
    node.ask(client, 10)
    assert client.meter.charge_fetch(5000) == (40_000, True)
    assert client.meter.charge_fetch(5000) == (90_000, False)
    node.clock.now_us += 11_000_000
    assert client.meter.charge_fetch(5000)[1]


def test_changes_to_partitions_take_tokens():
    node = Node(controller_mutation_rate=1)
    client = node.connect()
    node.ask(client, 10)
    assert client.meter.counts_mutations
    take = partial(node.enforcer.uses.take_mutations, "ANONYMOUS", client.meter.client_id)
    assert take(6, strict=True) == 0
    assert take(6, strict=True) == 0
    assert take(1, strict=True) == 1000
    assert take(6, strict=False) == 7000
    client.meter.throttle_mutations(7000)
    assert muted_ms(node, client) == 7000
    assert list(node.enforcer.uses.throttled.values()) == [(1, 7000)]


def test_changes_to_partitions_of_a_client_without_a_quota_are_not_counted():
    node = Node(producer_byte_rate=1)
    client = node.connect()
    node.ask(client, 10)
    assert not client.meter.counts_mutations
    assert node.enforcer.uses.take_mutations("ANONYMOUS", client.meter.client_id, 1_000, strict=True) == 0


def test_an_address_opens_so_many_connections():
    node = Node()
    node.enforcer.change({ip_alone("192.0.2.1"): {"connection_creation_rate": 1.0}})
    admitted = [node.enforcer.admits_connection("192.0.2.1") for _ in range(12)]
    assert admitted == [True] * 10 + [False] * 2
    assert node.enforcer.admits_connection("192.0.2.2")
    node.clock.now_us += 12_000_000
    assert node.enforcer.admits_connection("192.0.2.1")


def test_throttles_are_counted_by_the_entity_whose_quota_it_is():
    node = Node(producer_byte_rate=100)
    for client in (node.connect(), node.connect()):
        node.ask(client, 1200)
    assert node.enforcer.uses.throttled == {(PRODUCE, client_alone("c")): (2, 2000 + 14_000)}
    node.enforcer.change({client_alone("c"): {"consumer_byte_rate": 1.0}})
    assert node.enforcer.uses.throttled == {}


def test_names_of_clients_do_not_fill_the_memory():
    node = Node()
    node.enforcer.change({client_alone(None): {PRODUCE: 100.0}})
    client = node.connect()
    for number in range(USED_MAX + 50):
        node.ask(client, 10, client_id=str(number))
    assert len(node.enforcer.uses._used) == USED_MAX + 1
    node.clock.now_us += 20_000_000
    node.ask(client, 10, client_id="late")
    assert len(node.enforcer.uses._used) == 1


def test_long_names_of_clients_do_not_fill_the_memory_and_are_counted_each_for_itself():
    node = Node()
    node.enforcer.change({client_alone(None): {PRODUCE: 100.0}, client_alone("b" * 32_767): {PRODUCE: 100.0}})
    for name in ("a" * 32_767, "b" * 32_767, "c" * 257, "c" * 256):
        client = node.connect()
        assert told_ms(node.ask(client, 5000, client_id=name)[1]) == 40_000
    assert sorted(len(client_id) for _key, (_user, client_id) in node.enforcer.uses._used) == [64, 64, 64, 256]


async def test_steps_of_tasks_are_counted():
    node = Node(request_percentage=1)
    ended = asyncio.Event()

    async def work():
        node.clock.now_us += 200_000
        await asyncio.sleep(0)
        node.clock.now_us += 200_000
        ended.set()

    def answer(_request):
        node.tasks.start(work(), name="work", for_request=True)
        return LATER

    node.answer = answer
    client = node.connect()
    node.ask(client, 10)
    await asyncio.wait_for(ended.wait(), 10)
    await node.tasks.stop()
    node.answer = (encode_produce_response(9, 1, [ProduceResult("t", 0, 0, 0)]),)
    assert told_ms(node.ask(client, 10)[1]) == 1000


async def test_a_counted_task_is_cancelled_like_any_other():
    node = Node(request_percentage=1)
    begun = asyncio.Event()
    seen = []

    async def work():
        begun.set()
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    def answer(_request):
        node.tasks.start(work(), name="work", for_request=True)
        return LATER

    node.answer = answer
    node.ask(node.connect(), 10)
    await asyncio.wait_for(begun.wait(), 10)
    await node.tasks.stop()
    assert seen == ["cancelled"]


def held(node):
    steps = node.enforcer.find_held()
    try:
        while True:
            next(steps)
    except StopIteration as end:
        return {(each.user, each.client_id, each.key): (each.connections, each.left_us // 1000) for each in end.value}


def test_clients_that_are_held_are_told_by_the_quota_that_holds_them():
    node = Node(producer_byte_rate=100)
    first, second = node.connect("User:alice"), node.connect("User:alice")
    node.connect("User:bob")
    assert held(node) == {}
    node.ask(first, 1200)
    node.ask(second, 100)
    assert held(node) == {("alice", "c", PRODUCE): (2, 3000)}


def test_a_client_that_waits_no_longer_is_not_held():
    node = Node(producer_byte_rate=100)
    client = node.connect()
    node.ask(client, 1200)
    node.clock.now_us += 2_000_000
    assert held(node) == {}, "its time is over, whenever its timer comes"
    node.ask(client, 1200)
    assert held(node)
    node.enforcer.change({client_alone("c"): {PRODUCE: 100}})
    assert held(node) == {}, "other quotas let it go on"


def test_a_client_is_told_by_the_name_under_which_it_was_held():
    node = Node(producer_byte_rate=100)
    client = node.connect()
    node.ask(client, 1200)
    node.ask(client, 10, client_id="other")  # it had arrived before the connection was muted
    assert held(node) == {("ANONYMOUS", "c", PRODUCE): (1, 2000)}


def test_the_quota_with_the_longest_wait_is_told():
    node = Node(producer_byte_rate=100, request_percentage=1)
    node.takes_us = 200_000
    client = node.connect()
    node.ask(client, 10)
    assert held(node) == {("ANONYMOUS", "c", "request_percentage"): (1, 1000)}
    node.ask(client, 2000)
    assert list(held(node)) == [("ANONYMOUS", "c", PRODUCE)]


def test_an_address_that_may_open_no_connection_is_held():
    node = Node()
    node.enforcer.change({ip_alone(None): {"connection_creation_rate": 1}})
    assert sum(node.enforcer.admits_connection("192.0.2.1") for _ in range(30)) == 10
    assert node.enforcer.admits_connection("192.0.2.2")
    before = held(node)
    assert before == {(None, None, "connection_creation_rate"): (0, 1000)}
    assert held(node) == before, "to look counts nothing"
    node.clock.now_us += 11_000_000
    assert held(node) == {}
    node.enforcer.change({})
    assert held(node) == {}
