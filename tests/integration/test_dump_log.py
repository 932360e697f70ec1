"""``esp dump-log`` and Kafka's own tool print the same of the files of a stopped node."""

import re

import pytest

from esp.cli.app import run_tools
from esp.settings.subjects.access import STANDARD_AUTHORIZER
from esp.testing.kafka_tools import KafkaTools
from esp.testing.pytest_plugin import NodeFactory
from tests.integration.dump_log import check_files, dump, dump_here, dumpable_files
from tests.integration.test_restart import SMALLEST_SEGMENT, create, fill
from tests.integration.transactions import serve_transactions, write_by_librdkafka


@pytest.mark.timeout(180)
def test_both_tools_print_the_same(fresh_node: NodeFactory, kafka_tools: KafkaTools) -> None:
    node = fresh_node()
    create(node, "plain", 2, segment_bytes=SMALLEST_SEGMENT)
    fill(node, "plain", 3000, 1024, **{"enable.idempotence": True})
    for codec in ("gzip", "snappy", "lz4", "zstd"):
        create(node, codec)
        fill(node, codec, 50, 256, **{"compression.type": codec})
    node.stop()
    for metadata, options in ((False, ["--print-data-log"]), (True, ["--cluster-metadata-decoder"])):
        # Kafka calls the first entry of an index wrong if it must look at a segment whose base offset is not 0 record by record.
        files = [path for path in dumpable_files(node.log_dirs, metadata=metadata) if not path.name.endswith("index")]
        files += [
            path for path in dumpable_files(node.log_dirs, metadata=metadata) if path.name.startswith("0" * 20 + ".")
        ]
        theirs = kafka_tools.run("dump-log", *options, "--files", ",".join(map(str, files)), timeout_s=120).stdout
        assert dump_here(files, *options).splitlines() == theirs.splitlines()
        assert theirs.count("Dumping") == len(files)


@pytest.mark.timeout(180)
def test_both_tools_print_the_same_of_transactions(fresh_node: NodeFactory, kafka_tools: KafkaTools) -> None:
    node = fresh_node({"transaction.state.log.num.partitions": "1"})
    create(node, "t", 2)
    serve_transactions(node.bootstrap, [node])
    write_by_librdkafka(node.bootstrap, "tx-\u00fc", "t", [(True, [b"a", b"b"]), (False, [b"c", b"d"])])
    node.stop()
    (directory,) = [path for each in node.log_dirs for path in each.glob("__transaction_state-0")]
    files = [directory / f"{0:020d}.log"]
    options = ["--transaction-log-decoder"]
    theirs = dump(kafka_tools, files, *options)
    assert dump_here(files, *options).splitlines() == theirs.splitlines()
    assert theirs.count('"transactionalId":"tx-\u00fc"') >= 7, "two transactions of a begin, a decision and an end"
    check_files(kafka_tools, node.log_dirs)


SECRET_OF_SCRAM = re.compile(r'"(salt|storedKey|serverKey)":"[^"]*"')
"""Kafka's tool prints what a password can be guessed from."""


@pytest.mark.timeout(180)
def test_both_tools_print_the_same_of_rules_quotas_and_users(
    fresh_node: NodeFactory, kafka_tools: KafkaTools, capsys: pytest.CaptureFixture[str]
) -> None:
    node = fresh_node({"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:ANONYMOUS"})

    def esp(command: str, *arguments: str) -> None:
        assert run_tools([command, *arguments, "--bootstrap-server", node.bootstrap]) == 0, capsys.readouterr()

    for change in ("--add", "--remove"):
        for role in (
            ("--allow-principal", "User:\u00fc", "--producer", "--topic", "t-", "--resource-pattern-type", "prefixed"),
            ("--deny-principal", "Group:g", "--deny-host", "10.0.0.0/8", "--operation", "All", "--cluster"),
        ):
            esp("acls", change, *role, *(("--force",) if change == "--remove" else ()))
    for action, values in (("set", ("producer_byte_rate=1e6", "request_percentage=12.5")), ("remove", ())):
        for client in (("--user", "a", "--client-id-default"), ("--client-id", "c"), ("--user-default",)):
            esp("quotas", action, *values, *client)
    esp("quotas", "set", "connection_creation_rate=3", "--ip", "192.0.2.1")
    esp("users", "add", "alice")
    esp("users", "rotate", "alice")
    esp("users", "delete", "alice")
    node.stop()
    files = [path for path in dumpable_files(node.log_dirs, metadata=True) if path.suffix == ".log"]
    options = ["--cluster-metadata-decoder"]
    theirs = SECRET_OF_SCRAM.sub(r'"\1":"[hidden]"', dump(kafka_tools, files, *options))
    assert dump_here(files, *options).splitlines() == theirs.splitlines()
    for kind in ("ACCESS_CONTROL_ENTRY", "CLIENT_QUOTA", "USER_SCRAM_CREDENTIAL"):
        assert theirs.count(f'"{kind}_RECORD"') >= 2, kind
        assert kind == "CLIENT_QUOTA" or f'"REMOVE_{kind}_RECORD"' in theirs
