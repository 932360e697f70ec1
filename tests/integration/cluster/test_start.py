"""Nodes that are spoken to while they start: the ports accept long before anything is served, and peers and clients do not wait."""

import socket
import time

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from esp.testing.cluster import Cluster
from esp.testing.node_process import NodeProcess
from esp.testing.pytest_plugin import ClusterFactory, NodeFactory
from tests.integration import messages
from tests.integration.cluster.observer import Observe
from tests.integration.wire import Wire, frame

FRAMES = 3000
"""Some 120 KB: a connection that is not served takes no more than a small part of that off the kernel."""


def connect_at_once(node: NodeProcess, port: int) -> Wire:
    """Connect as soon as the port accepts."""
    deadline = time.monotonic() + node.START_TIMEOUT_S
    while True:
        try:
            return Wire(node, timeout_s=node.START_TIMEOUT_S, port=port)
        except ConnectionRefusedError:
            assert node.is_running, node.output
            assert time.monotonic() < deadline
            time.sleep(0.002)


def send_much(wire: Wire) -> None:
    wire.socket.sendall(b"".join(frame(messages.api_versions(), number) for number in range(FRAMES)))


def read_answers(wire: Wire) -> None:
    assert [wire.read().correlation_id for _ in range(FRAMES)] == list(range(FRAMES))


def test_who_is_there_first_is_answered_when_the_node_is_ready(fresh_node: NodeFactory) -> None:
    node = fresh_node(start=False)
    for _ in range(2):  # a new node, and one that has a log
        node.launch()
        with connect_at_once(node, node.port) as wire:
            node.pause()  # so that it is not ready before all was sent
            send_much(wire)
            node.resume()
            node.wait_until_ready()
            read_answers(wire)
        node.stop()


@pytest.mark.timeout(120)
def test_who_is_there_before_the_majority_is_answered_when_that_has_come(make_cluster: ClusterFactory) -> None:
    """A node without a majority accepts for as long as that takes; among controllers it speaks before."""
    cluster = make_cluster(3, start=False)
    cluster.format()
    node = cluster.nodes[1]
    node.launch()
    with connect_at_once(node, node.port) as client, connect_at_once(node, controller_port(cluster, 1)) as peer:
        for wire in (client, peer):
            send_much(wire)
        assert is_silent(client)
        assert node.is_running, node.output
        for number in (2, 3):
            cluster.nodes[number].launch()
        for one in cluster.nodes.values():
            one.wait_until_ready()
        for wire in (client, peer):
            read_answers(wire)


def controller_port(cluster: Cluster, number: int) -> int:
    return int(cluster.controller_address(number).rpartition(":")[2])


def is_silent(wire: Wire) -> bool:
    wire.socket.settimeout(0.2)
    try:
        wire.socket.recv(1, socket.MSG_PEEK)
    except TimeoutError:
        return True
    finally:
        wire.socket.settimeout(60)
    return False


TOPICS, PARTITIONS = 20, 100
"""A follower of a third of all partitions names those in a request of more than 16 KiB, and asks again once its leader's port accepts."""


@pytest.mark.timeout(300)
def test_nodes_that_were_killed_together_come_back_to_followers_of_many_partitions(
    make_cluster: ClusterFactory, observe: Observe, topic: str
) -> None:
    cluster = make_cluster(3)
    topics = [f"{topic}-{number}" for number in range(TOPICS)]
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    for name in topics:
        admin.create_topics([NewTopic(name, PARTITIONS, 3)])[name].result()
    observer = observe(cluster)
    killed = [cluster.nodes[number] for number in (2, 3)]
    for node in killed:
        node.kill()
    for node in killed:
        node.launch()
    for node in killed:
        node.wait_until_ready()
    for name in topics:
        observer.wait_until_whole(name)
