"""``esp capture verify``: the proof that the files of a capture hold each record once."""

from collections.abc import Collection, Sequence
from typing import Annotated, Any, Final

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
_TABLE: Final = "TABLE"
"""The heading of the offsets up to which tables have the files."""


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

    The names of the files must fit together and fit the committed offsets, footers must fit names, and the offsets of all records must be
    those of the topic, as far as it still has them (COMPARED). NO RECORD counts offsets without a record: markers of transactions, aborted
    records, and records that compaction had removed. TABLE is the offset up to which a Delta table has the files; a runner adds the later
    files. The capture may run meanwhile.

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
        _print_table(found)
        for problem in problems:
            print_line(problem)
    for topic in sorted({one.partition.topic for one in found if one.is_rewritten}):
        print_note(
            f"Another program has rewritten files of the table of topic {topic}: which records they have is not looked at."
        )
    if problems:
        print_note(f"{len(problems)} problems.")
        raise typer.Exit(1)


def _print_table(found: Sequence[Any]) -> None:
    """Write a line for each partition."""
    has_tables = any(one.table is not None for one in found)
    rows = []
    for one in found:
        facts = (one.files, one.first, one.end, one.records, one.without_records, one.compared, len(one.problems))
        table = ("-" if one.table is None else one.table,) if has_tables else ()
        rows.append([f"{one.partition.topic}-{one.partition.number}", *map(str, (*facts, *table))])
    headings = (*_HEADINGS, _TABLE) if has_tables else _HEADINGS
    print_columns([(heading, _WIDTH) for heading in headings], rows)


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
