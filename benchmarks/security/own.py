"""``python -m benchmarks.security.own``: what protection costs a node of ours, beside one of ours without it."""

import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Annotated, Any, Final, NamedTuple

import typer
from kio.schema.delete_acls.v3 import request as delete_acls
from kio.schema.metadata.v13 import request as metadata
from kio.schema.types import TopicName
from kio.static.primitive import i8

from benchmarks import command
from benchmarks.batches import PARTITIONS, small_batch
from benchmarks.client import METADATA_VERSION, Client, create_topic
from benchmarks.request_load import measure_small_requests
from benchmarks.results import ESP, REQUEST_ALL
from benchmarks.row_by_row import Report, choose_rows
from benchmarks.security.guarded import (
    PLAINTEXT_DOOR,
    Certificates,
    Doors,
    guard,
    make_many_rules,
    make_rules,
    own_node,
    rule,
)
from benchmarks.security.metrics import (
    CHANGED_RULE,
    FIRST_SECURE_CPU,
    FIRST_SECURE_START,
    IDLE_TLS,
    MANY_RULES_COST,
    OPEN_REQUEST,
    OPEN_START,
    OWN_METRICS,
    RULES_COST,
    SECURE_CPU,
    SECURE_START,
)
from benchmarks.security.rows import ANONYMOUS
from benchmarks.stage import Extent, Stage, settle
from esp.model.acl import AclPermission, PatternType, ResourceType
from esp.model.errors import ErrorCode
from esp.protocol.registry import ApiKey
from esp.settings.subjects.access import STANDARD_AUTHORIZER
from esp.testing.cluster import Cluster
from esp.testing.node import Node
from esp.testing.node_process import HOST, NodeProcess
from esp.testing.ports import free_port

USUAL: Final = Extent(rounds=7, warm_up_rounds=2)
QUICK: Final = Extent(rounds=1, warm_up_rounds=0, scale=0.02)
NOTES: Final = (
    "All nodes are ESP's, and serve metrics. What is more is told of each round's pair, which was measured right after one another.",
    "Requests: one record of 100 bytes, acks=all, in plaintext, 50 connections with one request in flight each.",
    "Rules: of the client, and 10,000 others for other users and topics, half of them for prefixes. Three quotas that it does not reach.",
    "A changed rule: the time from the answer of one node until all three deny, or allow, what it says; asked one after the other.",
    "Start: from the process start until it says that it is ready; the first one with `--secure` makes authority, certificate and user.",
    "Idle: 5,000 connections that have logged in by PLAIN, 15 s later: resident memory of the node, divided by them.",
)
REQUESTS: Final = 40_000
MANY_RULES: Final = 10_000
IDLE_CONNECTIONS: Final = 5_000
REST_S: Final = 15.0
"""After which a node has given back what connections needed at first."""

CHANGES: Final = 10
"""Changes of rules in each round."""

CHANGE_TIMEOUT_S: Final = 30.0
_TOPIC: Final = "own"
_ANY: Final = i8(1)
"""Any operation, any permission."""

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


def measure_requests(stage: Stage) -> None:
    """Small requests to three nodes: without protection, with rules and quotas, with 10,000 rules more."""
    directory, certificates = stage.directory, Certificates(stage.directory)
    nodes = {
        OPEN_REQUEST: own_node(directory / "open", certificates, "PLAINTEXT", has_authorizer=False),
        RULES_COST: own_node(directory / "guarded", certificates, "PLAINTEXT", has_authorizer=True),
        MANY_RULES_COST: own_node(directory / "many", certificates, "PLAINTEXT", has_authorizer=True),
    }
    with ExitStack() as running:
        for node in nodes.values():
            running.enter_context(node)
        for metric, node in nodes.items():
            settle(node)
            if metric is not OPEN_REQUEST:
                guard(node, ANONYMOUS)
        make_many_rules(nodes[MANY_RULES_COST], stage.scaled(MANY_RULES))
        for node in nodes.values():
            create_topic(node.port, _TOPIC, PARTITIONS)
        count = stage.scaled(REQUESTS, 50)
        for number in stage.rounds():
            pairs = list(nodes.items())
            cost_us = {
                metric: measure_small_requests(node, _TOPIC, small_batch(), count, PLAINTEXT_DOOR)[REQUEST_ALL]
                for metric, node in (reversed(pairs) if number % 2 else pairs)
            }
            open_us = cost_us[OPEN_REQUEST]
            more = {metric: 100 * (cost_us[metric] / open_us - 1) for metric in (RULES_COST, MANY_RULES_COST)}
            stage.take(ESP, {OPEN_REQUEST: open_us, **more}, number)


def measure_changed_rules(stage: Stage) -> None:
    """Rules that come and go, and three nodes that are asked."""
    settings = {"authorizer.class.name": STANDARD_AUTHORIZER, "allow.everyone.if.no.acl.found": "true"}
    with Cluster(stage.directory, 3, settings) as cluster, ExitStack() as stack:
        clients = [stack.enter_context(Client(node.port)) for node in cluster.nodes.values()]
        for number in stage.rounds():
            for change in range(stage.scaled(CHANGES)):
                changing = clients[change % len(clients)]
                for is_denied in (True, False):
                    if is_denied:
                        denial = rule(ANONYMOUS, ResourceType.TOPIC, _TOPIC, permission=AclPermission.DENY)
                        make_rules(changing, denial)
                    else:
                        changing.ask(ApiKey.DELETE_ACLS, 3, _removal())
                    stage.take(ESP, {CHANGED_RULE: _until_all(clients, is_denied=is_denied) * 1000}, number)


def _removal() -> delete_acls.DeleteAclsRequest:
    every = delete_acls.DeleteAclsFilter(
        resource_type_filter=i8(ResourceType.TOPIC),
        resource_name_filter=_TOPIC,
        pattern_type_filter=i8(PatternType.LITERAL),
        principal_filter=None,
        host_filter=None,
        operation=_ANY,
        permission_type=_ANY,
    )
    return delete_acls.DeleteAclsRequest(filters=(every,))


def _until_all(clients: list[Client], *, is_denied: bool) -> float:
    """The seconds until the last node answers by the rule as it is now."""
    asked = metadata.MetadataRequestTopic(topic_id=None, name=TopicName(_TOPIC))
    request = metadata.MetadataRequest(
        topics=(asked,), allow_auto_topic_creation=False, include_topic_authorized_operations=False
    )
    began = time.perf_counter()
    for client in clients:
        while True:
            answer: Any = client.ask(ApiKey.METADATA, METADATA_VERSION, request)
            if (answer.topics[0].error_code is ErrorCode.topic_authorization_failed) is is_denied:
                break
            assert time.perf_counter() < began + CHANGE_TIMEOUT_S, "the rule does not count"
    return time.perf_counter() - began


class SecureNode(Node):
    """A node that is started with ``--secure``."""

    def _options(self) -> list[str]:
        listeners = f"CLIENTS://{HOST}:{self.port},NODES://{HOST}:{free_port()},CONTROLLER://{HOST}:{free_port()}"
        return ["--secure", "--data-dir", str(self.data_dir), f"--set=listeners={listeners}"]


def measure_starts(stage: Stage) -> None:
    """First starts, and further ones, with and without ``--secure``, turn about."""
    for number in stage.rounds():
        nodes = (Node(stage.directory / f"open-{number}"), SecureNode(stage.directory / f"secure-{number}"))
        first_open, first_secure = (_start(node) for node in nodes)
        further_open, further_secure = (_start(node) for node in nodes)
        values = {
            OPEN_START: further_open.elapsed_s,
            FIRST_SECURE_START: first_secure.elapsed_s - first_open.elapsed_s,
            FIRST_SECURE_CPU: first_secure.cpu_s - first_open.cpu_s,
            SECURE_START: further_secure.elapsed_s - further_open.elapsed_s,
            SECURE_CPU: further_secure.cpu_s - further_open.cpu_s,
        }
        stage.take(ESP, values, number)


class Start(NamedTuple):
    """The costs of a start."""

    elapsed_s: float
    cpu_s: float


def _start(node: NodeProcess) -> Start:
    began = time.perf_counter()
    with node:
        elapsed_s = time.perf_counter() - began
        cpu_s = sum(node.cpu_seconds())
        node.stop()  # in order: a killed node's next start waits for the end of its session
    return Start(elapsed_s, cpu_s)


def measure_idle(stage: Stage) -> None:
    """Connections that have logged in and do nothing."""
    certificates = Certificates(stage.directory)
    doors = Doors(certificates.trusted)
    node = own_node(stage.directory / "idle", certificates, "SASL_SSL", has_authorizer=True)
    with node, ExitStack() as stack:
        settle(node)
        for _ in range(50):  # what the first ones need is not for each
            doors.by_plain(node.port).close()
        before = node.rss_bytes()
        count = stage.scaled(IDLE_CONNECTIONS)
        for _ in range(count):
            stack.enter_context(doors.by_plain(node.port, 4096))
        time.sleep(REST_S)
        stage.take(ESP, {IDLE_TLS: (node.rss_bytes() - before) / 1000 / count})


OWN_ROWS: Final[dict[str, Callable[[Stage], None]]] = {
    "requests": measure_requests,
    "changed-rules": measure_changed_rules,
    "starts": measure_starts,
    "idle-connections": measure_idle,
}
"""The measurements, in the order of the report."""

REPORT: Final = Report(
    stem="security-own",
    title="ESP with protection and without",
    rows=OWN_ROWS,
    metrics=OWN_METRICS,
    notes=NOTES,
    quick=QUICK,
)


@app.command()
def main(
    rows: Annotated[list[str] | None, command.rows_argument(OWN_ROWS)] = None,
    rounds: command.Rounds = USUAL.rounds,
    warm_up: command.WarmUp = USUAL.warm_up_rounds,
    quick: command.Quick = False,
    out: command.Out = command.RESULTS_DIRECTORY,
) -> None:
    """Measure what protection costs ESP beside ESP. Rows that are not measured stay as the files have them."""
    run = REPORT.run(Extent(rounds=rounds, warm_up_rounds=warm_up), out, quick=quick)
    run.measure(choose_rows(rows, OWN_ROWS), lambda row, stage: OWN_ROWS[row](stage))


if __name__ == "__main__":
    app()
