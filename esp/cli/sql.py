"""``esp sql``: a query over topics."""

import sys
from datetime import datetime
from typing import Annotated, Any, Final

import typer

from esp.cli.capture.telling import connect, load, telling
from esp.cli.groups.offset_reset import parse_datetime
from esp.cli.options import BootstrapServer, CommandConfig
from esp.cli.output import print_columns, print_note, print_warning
from esp.model.errors import OperatorError
from esp.options.value_options import ValueOptions, parse_value_options

FORMATS: Final = ("table", "csv", "json", "parquet")
_VALUES: Final = "Values as columns"
_ISOLATION: Final = ("read_uncommitted", "read_committed")


def sql(
    context: typer.Context,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="A SELECT of DuckDB's, in which topics are tables.")],
    bootstrap_server: BootstrapServer = "127.0.0.1:9092",
    command_config: CommandConfig = None,
    json: Annotated[
        list[str] | None,
        typer.Option(
            "--json",
            metavar="TOPIC[=SCHEMA]",
            help="The values are JSON: with a schema (name STRING, count INT) its fields are columns, without one the value is a text.",
            rich_help_panel=_VALUES,
        ),
    ] = None,
    avro: Annotated[
        list[str] | None,
        typer.Option(
            "--avro",
            metavar="TOPIC[=SCHEMA]",
            help="The values are Avro, of this schema or of the registry's newest; its fields are columns.",
            rich_help_panel=_VALUES,
        ),
    ] = None,
    text: Annotated[
        list[str] | None,
        typer.Option("--text", metavar="TOPIC", help="The values are text.", rich_help_panel=_VALUES),
    ] = None,
    schema_registry: Annotated[
        str | None, typer.Option("--schema-registry", metavar="URL", help="Of --avro.", rich_help_panel=_VALUES)
    ] = None,
    first: Annotated[
        str | None,
        typer.Option("--from", metavar="TIME|OFFSET", help="Read each partition from here on; else from its start."),
    ] = None,
    to: Annotated[
        str | None, typer.Option("--to", metavar="TIME|OFFSET", help="Read up to here; else up to the end.")
    ] = None,
    isolation_level: Annotated[
        str, typer.Option("--isolation-level", help="read_committed leaves out aborted transactions.")
    ] = "read_uncommitted",
    output_format: Annotated[
        str, typer.Option("--format", metavar="|".join(FORMATS), help="The form of the result.")
    ] = "table",
    output: Annotated[
        str | None,
        typer.Option("--output", metavar="FILE", help="Write the result there; else to the standard output."),
    ] = None,
    data_dir: Annotated[
        list[str] | None,
        typer.Option(
            "--data-dir",
            metavar="DIR",
            help="Read the segments of a stopped node, without a broker; may be given several times.",
        ),
    ] = None,
) -> None:
    """Query topics of ESP or of Kafka by SQL. It needs the extra esp\\[sql].

    Each topic is a table with the columns partition, offset, timestamp, key, value and headers; only the columns that the query needs are
    read. Keys and values are bytes (BLOB): decode(value) is their text. The word offset is one of SQL's: write "offset" in quotes, and so
    the names of topics that are no words. Tables of other names are DuckDB's, such as 'flights.parquet'.

    With --data-dir no broker is needed: the segments of a stopped node are read, of ESP or of Kafka, and the offset at which each
    partition ends is shown.

    [bold]Examples[/bold]

    esp sql 'SELECT partition, count(*), max("offset") FROM flights GROUP BY 1'

    esp sql --json 'flights=carrier STRING, delay INT' 'SELECT carrier, avg(delay) FROM flights GROUP BY 1 ORDER BY 2'

    esp sql --from 2026-11-26T09:00 --format csv 'SELECT decode(value) FROM "my-topic"'

    esp sql --data-dir /var/lib/esp 'SELECT count(*) FROM flights'
    """
    _check_form(output_format, output)
    if isolation_level not in _ISOLATION:
        raise OperatorError(f"--isolation-level {isolation_level}: not a level", f"Write {' or '.join(_ISOLATION)}.")
    values = _values(json or [], avro or [], text or [], schema_registry)
    with telling():
        queries = _load("esp.sql.query")
        bounds = _bounds(first, to)
        is_committed = isolation_level == "read_committed"
        if data_dir:
            source = _files(context, data_dir, bounds, is_committed=is_committed)
        else:
            source = _cluster(bootstrap_server, command_config, bounds, is_committed=is_committed)
        try:
            made = queries.Query(query, source, values)
            if output_format == "table":
                _print(made.table())
            else:
                made.write(output or "/dev/stdout", output_format)
        except queries.QueryError as error:
            raise OperatorError(str(error), "Correct the query. See: esp sql --help") from error


def _check_form(form: str, output: str | None) -> None:
    if form not in FORMATS:
        raise OperatorError(f"--format {form}: not a form of the result", f"Write one of {', '.join(FORMATS)}.")
    if form == "table" and output is not None:
        raise OperatorError("--output: a table is for a terminal", "Add --format csv, json or parquet.")
    if form == "parquet" and output is None and sys.stdout.isatty():
        raise OperatorError("--format parquet: it is not for a terminal", "Add --output FILE.")


def _refuse_options_of_brokers(context: typer.Context) -> None:
    """Refuse options that would have no effect, since no broker is asked. Values of the environment are for all commands.

    Raises:
        OperatorError: there is one.
    """
    for name in ("bootstrap_server", "command_config"):
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            raise OperatorError(
                f"--{name.replace('_', '-')}: no broker is asked where --data-dir is given", "Leave one of the two out."
            )


def _files(context: typer.Context, directories: list[str], bounds: Any, *, is_committed: bool) -> Any:
    """The topics of a stopped node."""
    _refuse_options_of_brokers(context)
    if is_committed:
        raise OperatorError(
            "--isolation-level read_committed: files alone do not say which transactions were decided",
            "Leave it out, or ask a broker.",
        )
    return _load("esp.sql.segment_source").SegmentSource(directories, bounds, print_note)


def _cluster(bootstrap_server: str, command_config: str | None, bounds: Any, *, is_committed: bool) -> Any:
    """The topics of a cluster."""
    terms = _load("esp.consumer.partition_reader").FetchTerms(
        is_read_committed=is_committed,
        loss_remedy="run the query again, which begins with the records that are there then",
    )
    servers, connection = connect(bootstrap_server, command_config)
    return _load("esp.sql.cluster_source").ClusterSource(servers, connection, terms, bounds, print_warning)


def _load(module: str) -> Any:
    try:
        return load(module)
    except OperatorError as error:
        raise OperatorError(
            error.problem.replace("a capture needs", "esp sql needs"), 'Install it: pip install "esp[sql]"'
        ) from error


def _bounds(first: str | None, to: str | None) -> Any:
    bounds = _load("esp.sql.bounds")

    def bound(name: str, text: str | None) -> Any:
        if text is None:
            return None
        return bounds.Bound(int(text)) if text.isdecimal() else bounds.Bound(None, parse_datetime(text, name))

    made = bounds.Bounds(bound("--from", first), bound("--to", to))
    if made.is_backwards:
        raise OperatorError(f"--from {first}: it is behind --to {to}, and nothing would be read", "Exchange the two.")
    return made


def _values(json: list[str], avro: list[str], text: list[str], registry: str | None) -> dict[str, ValueOptions]:
    """The options of values, by topic."""
    if registry is not None and not avro:
        raise OperatorError(
            f"--schema-registry {registry}: it has an effect with --avro only", "Add --avro TOPIC, or leave it out."
        )
    found: dict[str, ValueOptions] = {}
    for option, form, texts in (("--json", "json", json), ("--avro", "avro", avro), ("--text", "string", text)):
        for each in texts:
            topic, equals, schema = each.partition("=")
            if topic in found:
                raise OperatorError(f"{option} {topic}: an option has its values already", "Give one for each topic.")
            given = {"valueFormat": "string" if form == "json" and not equals else form}
            if equals and form != "string":
                given["valueSchema"] = schema
            if form == "avro" and registry is not None:
                given["schemaRegistry"] = registry
            if not topic:
                raise OperatorError(f"{option} {each}: it names no topic", f"Write {option} TOPIC{equals}{schema}.")
            if form == "avro" and not equals and registry is None:
                raise OperatorError(
                    f"{option} {each}: it has no schema",
                    f"Write {option} {topic}=SCHEMA, or add --schema-registry URL.",
                )
            with telling(f"{option} {each}"):
                found[topic] = parse_value_options(given, [topic])
                if registry is None:  # a schema of a registry is looked at when it is there
                    _load("esp.options.value_columns").open_values(found[topic])
    return found


def _print(table: Any) -> None:
    print_columns([(name, 1) for name in table.columns], [[_cell(cell) for cell in row] for row in table.rows])
    if not table.is_whole:
        print_note(f"Only the first {len(table.rows):,} rows are shown: add LIMIT, or --format csv.")


def _cell(cell: Any) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, bytes):
        return cell.decode("utf-8", "backslashreplace")
    if isinstance(cell, datetime):
        return cell.isoformat(timespec="milliseconds")
    return str(cell)
