"""``esp log-dirs``: what is in the log directories of brokers, and how large it is; the flags of ``kafka-log-dirs``."""

from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.filesize import decimal

from esp.cli.kafka.answers import LogDirInfo, ReplicaSize
from esp.cli.kafka.cluster import ClusterAdmin
from esp.cli.options import BootstrapServer, Json, action
from esp.cli.output import console, print_columns, print_json, print_warning, working
from esp.model.errors import OperatorError


def log_dirs(
    bootstrap_server: BootstrapServer = "127.0.0.1:9092",
    describe: Annotated[bool, action("--describe", "Show the directories; the only action.")] = False,
    broker_list: Annotated[
        str | None, typer.Option("--broker-list", metavar="ID,ID", help="The brokers (default: all).")
    ] = None,
    topic_list: Annotated[
        str | None, typer.Option("--topic-list", metavar="NAME,NAME", help="The topics (default: all).")
    ] = None,
    json: Json = False,
) -> None:
    """Show the sizes of topics in the log directories of brokers.

    With --json it prints the document of Kafka's tool, partition by partition.

    [bold]Examples[/bold]

    esp log-dirs --describe

    esp log-dirs --describe --broker-list 1,2 --topic-list flights

    esp log-dirs --describe --json | jq '.brokers[].logDirs[].logDir'
    """
    if not describe:
        raise OperatorError("esp log-dirs needs --describe", "Write esp log-dirs --describe")
    topics = None if topic_list is None else frozenset(_words(topic_list))
    wanted = None if broker_list is None else _words(broker_list)
    if wanted is not None and not all(word.isdecimal() for word in wanted):
        raise OperatorError(f"--broker-list {broker_list}: not broker ids", "Write numbers with commas between them.")
    with ClusterAdmin(bootstrap_server) as admin, working("asking the brokers"):
        there = admin.broker_ids()
        brokers = there if wanted is None else sorted(set(map(int, wanted)))
        missing = set(brokers) - set(there)
        if missing:
            raise OperatorError(
                f"there is no broker {', '.join(map(str, sorted(missing)))}", f"There are {', '.join(map(str, there))}."
            )
        found = [
            directory._replace(
                replicas=tuple(each for each in directory.replicas if topics is None or each.topic in topics)
            )
            for directory in admin.log_dirs(brokers)
        ]
    if json:
        print_json(_document(found))
    else:
        _print_sizes(found)


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _document(found: Sequence[LogDirInfo]) -> dict[str, Any]:
    """The document that Kafka's tool prints (``version`` 1)."""
    brokers: dict[int, list[dict[str, Any]]] = {}
    for directory in found:
        brokers.setdefault(directory.broker, []).append(
            {
                "logDir": directory.path,
                "error": directory.error,
                "partitions": [
                    {
                        "partition": f"{each.topic}-{each.partition}",
                        "size": each.size_bytes,
                        "offsetLag": each.offset_lag,
                        "isFuture": each.is_future,
                    }
                    for each in directory.replicas
                ],
            }
        )
    return {"version": 1, "brokers": [{"broker": broker, "logDirs": some} for broker, some in brokers.items()]}


def _print_sizes(found: Sequence[LogDirInfo]) -> None:
    rows: list[list[str]] = []
    for directory in found:
        if directory.error is not None:
            print_warning(f"broker {directory.broker}: {directory.path}: {directory.error}")
        by_topic: dict[str, list[ReplicaSize]] = {}
        for each in directory.replicas:
            by_topic.setdefault(each.topic, []).append(each)
        rows += [
            [
                *(str(directory.broker), directory.path, topic, str(len(replicas))),
                *(_size(sum(each.size_bytes for each in replicas)), str(max(each.offset_lag for each in replicas))),
            ]
            for topic, replicas in by_topic.items()
        ]
    print_columns(
        [("BROKER", 10), ("LOG-DIR", 25), ("TOPIC", 25), ("REPLICAS", 10), ("SIZE", 15), ("MAX-OFFSET-LAG", 0)], rows
    )


def _size(size_bytes: int) -> str:
    """The size in bytes; in larger units on a terminal, where readability counts more than exact sums."""
    return decimal(size_bytes) if console.is_terminal else str(size_bytes)
