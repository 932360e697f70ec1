"""``esp capture verify``: the proof that the files of a capture hold each record once."""

from collections.abc import Collection
from typing import Annotated, Final

import typer

from esp.capture.position import group_of
from esp.cli.capture.telling import connect, load, telling
from esp.cli.kafka.command_config import read_command_config, using
from esp.cli.kafka.configs import ConfigsAdmin, ResourceType
from esp.cli.kafka.groups import GroupsAdmin
from esp.cli.options import BootstrapServer, CommandConfig, Json
from esp.cli.output import print_columns, print_json, print_line, print_note, working

_WIDTH: Final = 9
_HEADINGS: Final = ("PARTITION", "FILES", "FIRST", "END", "RECORDS", "NO RECORD", "COMPARED", "PROBLEMS")


def verify(
    directory: Annotated[str, typer.Argument(metavar="DIR", help="The directory of the capture, or its URL.")],
    bootstrap_server: BootstrapServer = "127.0.0.1:9092",
    command_config: CommandConfig = None,
    offline: Annotated[
        bool, typer.Option("--offline", help="Ask no broker: only whether the files fit together, and are whole.")
    ] = False,
    json: Json = False,
) -> None:
    """Prove that the files of a capture have no gap and no overlap, and the records that the topics have; exit with 1 if not.

    Names are held against one another and against what is committed, footers against names, and the offsets of all records against
    those of the topic, as far as it still has them (COMPARED). NO RECORD counts offsets that have none: markers of transactions, aborted
    records, and records that compaction had removed. It may be run while the capture runs.

    [bold]Examples[/bold]

    esp capture verify /data/lake

    esp capture verify s3://bucket/lake --offline
    """
    with telling(), using({} if command_config is None else read_command_config(command_config)):
        servers, terms = connect(bootstrap_server, command_config)
        verifier = load("esp.capture.verifier").Verifier(
            directory,
            () if offline else servers,
            terms,
            lambda name: _topics_of(bootstrap_server, name),
            lambda topics: _compacted(bootstrap_server, topics),
        )
        with working("reading files and topics"):
            found = list(verifier.run())
    problems = [problem for one in found for problem in one.problems]
    if json:
        print_json(
            [
                {
                    **one._asdict(),
                    "partition": one.partition.number,
                    "topic": one.partition.topic,
                    "without_records": one.without_records,
                }
                for one in found
            ]
        )
    else:
        rows = [
            (
                f"{one.partition.topic}-{one.partition.number}",
                *map(
                    str,
                    (one.files, one.first, one.end, one.records, one.without_records, one.compared, len(one.problems)),
                ),
            )
            for one in found
        ]
        print_columns([(heading, _WIDTH) for heading in _HEADINGS], rows)
        for problem in problems:
            print_line(problem)
    if problems:
        print_note(f"{len(problems)} problems.")
        raise typer.Exit(1)


def _topics_of(servers: str, name: str) -> Collection[str]:
    with GroupsAdmin(servers) as admin:
        return {partition.topic for partition in admin.committed(group_of(name))}


def _compacted(servers: str, topics: Collection[str]) -> Collection[str]:
    with ConfigsAdmin(servers) as admin:
        found = admin.settings(ResourceType.TOPIC, sorted(topics)) if topics else {}
    return {
        topic
        for topic, entries in found.items()
        if any(entry.name == "cleanup.policy" and "compact" in (entry.value or "") for entry in entries)
    }
