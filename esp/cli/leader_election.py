"""``esp leader-election``: let other replicas lead; the flags of ``kafka-leader-election``."""

import json as json_text
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Final

import typer

from esp.cli.kafka.reassignments import ReassignmentsAdmin
from esp.cli.options import BootstrapServer, Json
from esp.cli.output import print_json, print_line, working
from esp.cli.text_files import read_text
from esp.model.errors import ErrorCode, OperatorError
from esp.model.ids import TopicPartition

_FORM: Final = '{"partitions": [{"topic": "flights", "partition": 0}]}'


class ElectionType(StrEnum):
    """The replicas that may be elected: the preferred leader, or a replica out of sync too."""

    PREFERRED = "preferred"
    UNCLEAN = "unclean"


def parse_partitions(text: str) -> list[TopicPartition]:
    """Read the file of ``--path-to-json-file``.

    Raises:
        OperatorError: it has another form.
    """
    try:
        found = [
            TopicPartition(str(each["topic"]), int(each["partition"])) for each in json_text.loads(text)["partitions"]
        ]
    except (ValueError, TypeError, KeyError) as error:
        raise OperatorError(f"the file has no list of partitions: {error}", f"Write {_FORM}") from error
    if not found:
        raise OperatorError("the file names no partition", f"Write {_FORM}")
    return found


def leader_election(
    election_type: Annotated[
        ElectionType,
        typer.Option(
            "--election-type",
            case_sensitive=False,
            help="preferred: the first replica of the list, where it does not lead. unclean: a replica that is not in sync, where there "
            "is no leader; records that it lacks are lost.",
            show_default=False,
        ),
    ],
    bootstrap_server: BootstrapServer = "127.0.0.1:9092",
    topic: Annotated[str | None, typer.Option("--topic", help="The topic; with --partition.")] = None,
    partition: Annotated[int | None, typer.Option("--partition", min=0, help="The partition of --topic.")] = None,
    all_topic_partitions: Annotated[
        bool, typer.Option("--all-topic-partitions", help="All partitions that need an election.")
    ] = False,
    path_to_json_file: Annotated[
        str | None,
        typer.Option("--path-to-json-file", metavar="FILE", help=f"The partitions that a file lists: {_FORM}"),
    ] = None,
    json: Json = False,
) -> None:
    """Elect leaders of partitions.

    [bold]Examples[/bold]

    esp leader-election --election-type preferred --all-topic-partitions

    esp leader-election --election-type preferred --topic flights --partition 0

    esp leader-election --election-type unclean --path-to-json-file partitions.json
    """
    if (topic is not None) + all_topic_partitions + (path_to_json_file is not None) != 1:
        raise OperatorError(
            "esp leader-election takes one of --topic, --all-topic-partitions, --path-to-json-file",
            "See esp leader-election --help for examples.",
        )
    if (topic is None) != (partition is None):
        raise OperatorError("--topic and --partition go together", "Write --topic flights --partition 0")
    wanted: list[TopicPartition] | None = None
    if path_to_json_file is not None:
        wanted = parse_partitions(read_text(path_to_json_file))
    elif topic is not None and partition is not None:
        wanted = [TopicPartition(topic, partition)]
    with ReassignmentsAdmin(bootstrap_server) as admin, working("electing leaders"):
        results = admin.elect(wanted, unclean=election_type is ElectionType.UNCLEAN)
    failed = {each: said for each, (code, said) in results.items() if code not in _NO_FAILURES}
    if json:
        print_json([_as_json(each, *result) for each, result in results.items()])
    else:
        _print(election_type.name, results, failed)
    if failed:
        raise OperatorError(
            f"{len(failed)} replica(s) could not be elected", "See esp topics --describe for replicas that are in sync."
        )


_NO_FAILURES: Final = (ErrorCode.none, ErrorCode.election_not_needed)


def _print(
    kind: str, results: Mapping[TopicPartition, tuple[ErrorCode, str]], failed: Mapping[TopicPartition, str]
) -> None:
    """Print the results in the words of Kafka's tool."""
    elected, led = (
        [f"{topic}-{number}" for (topic, number), (found, _) in results.items() if found is code]
        for code in _NO_FAILURES
    )
    if elected:
        print_line(f"Successfully completed leader election ({kind}) for partitions {', '.join(elected)}")
    if led:
        print_line(f"Valid replica already elected for partitions {', '.join(led)}")
    for (topic, number), said in failed.items():
        print_line(f"Error completing leader election ({kind}) for partition: {topic}-{number}: {said}")


def _as_json(partition: TopicPartition, code: ErrorCode, said: str) -> dict[str, Any]:
    topic, number = partition
    return {
        "topic": topic,
        "partition": number,
        "elected": code is ErrorCode.none,
        "error": None if code in _NO_FAILURES else code.name.upper(),
        "message": said or None,
    }
