"""``esp dump-log`` and Kafka's own tool print the same of the files of a stopped node."""

import subprocess
import sys
from pathlib import Path

import pytest

from esp.testing.kafka_tools import KafkaTools
from esp.testing.pytest_plugin import NodeFactory
from tests.integration.dump_log import check_files, dump, dumpable_files
from tests.integration.test_restart import SMALLEST_SEGMENT, create, fill
from tests.integration.transactions import serve_transactions, write_by_librdkafka


def ours(files: list[Path], *options: str) -> str:
    command = [sys.executable, "-m", "esp", "dump-log", *options, "--files", ",".join(map(str, files))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    return done.stdout


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
        assert ours(files, *options).splitlines() == theirs.splitlines()
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
    assert ours(files, *options).splitlines() == theirs.splitlines()
    assert theirs.count('"transactionalId":"tx-\u00fc"') >= 7, "two transactions of a begin, a decision and an end"
    check_files(kafka_tools, node.log_dirs)
