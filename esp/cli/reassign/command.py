"""``esp reassign-partitions``: partitions moved as a file says; the flags, words and files of ``kafka-reassign-partitions``."""

from collections.abc import Mapping
from typing import Annotated

import typer

from esp.cli.kafka.reassignments import ReassignmentsAdmin
from esp.cli.options import BootstrapServer, action
from esp.cli.output import working
from esp.cli.reassign.changes import cancel_reassignment, execute_reassignment
from esp.cli.reassign.reports import generate_reassignment, list_reassignments, verify_reassignment
from esp.cli.text_files import read_text
from esp.model.errors import OperatorError
from esp.rebalance.reassignment_json import read_reassignment, read_topics

_FILE = "--reassignment-json-file"


def reassign_partitions(
    bootstrap_server: BootstrapServer = "127.0.0.1:9092",
    generate: Annotated[bool, action("--generate", "Propose a reassignment; it is not carried out.")] = False,
    execute: Annotated[bool, action("--execute", "Begin a reassignment.")] = False,
    verify: Annotated[
        bool, action("--verify", "Show the progress of a reassignment; remove the throttles when it is complete.")
    ] = False,
    cancel: Annotated[bool, action("--cancel", "Cancel an active reassignment.")] = False,
    list_: Annotated[bool, action("--list", "List all partitions that are moving.")] = False,
    reassignment_json_file: Annotated[
        str | None, typer.Option(_FILE, metavar="FILE", help="The reassignment, in JSON.")
    ] = None,
    topics_to_move_json_file: Annotated[
        str | None,
        typer.Option("--topics-to-move-json-file", metavar="FILE", help="With --generate: the topics, in JSON."),
    ] = None,
    broker_list: Annotated[
        str | None, typer.Option("--broker-list", metavar="ID,ID", help="With --generate: the brokers to use.")
    ] = None,
    disable_rack_aware: Annotated[
        bool, typer.Option("--disable-rack-aware", help="With --generate: ignore racks.")
    ] = False,
    throttle: Annotated[
        int,
        typer.Option(
            "--throttle", metavar="BYTES", min=-1, help="With --execute: bytes/s of each broker; -1: no limit."
        ),
    ] = -1,
    replica_alter_log_dirs_throttle: Annotated[
        int,
        typer.Option(
            "--replica-alter-log-dirs-throttle",
            min=-1,
            metavar="BYTES",
            help="With --execute: bytes/s of each broker between its directories; -1: no limit.",
        ),
    ] = -1,
    timeout: Annotated[
        int, typer.Option("--timeout", metavar="MS", help="Time in which moves between directories must begin.")
    ] = 10_000,
    additional: Annotated[
        bool,
        typer.Option(
            "--additional", help="With --execute: in addition to active reassignments; also to change throttles."
        ),
    ] = False,
    preserve_throttles: Annotated[
        bool, typer.Option("--preserve-throttles", help="Leave throttles as they are.")
    ] = False,
    disallow_replication_factor_change: Annotated[
        bool,
        typer.Option(
            "--disallow-replication-factor-change",
            help="With --execute: refuse to change the replication factor (KIP-860).",
        ),
    ] = False,
) -> None:
    """Move partitions to other brokers or directories, from a JSON file.

    [bold]esp rebalance[/bold] needs no file, shows the cost of a move before it begins, and completes it.

    [bold]Examples[/bold]

    esp reassign-partitions --generate --topics-to-move-json-file topics.json --broker-list 1,2,3

    esp reassign-partitions --execute --reassignment-json-file moves.json --throttle 50000000

    esp reassign-partitions --verify --reassignment-json-file moves.json

    esp reassign-partitions --list
    """
    chosen = _chosen(
        {"--generate": generate, "--execute": execute, "--verify": verify, "--cancel": cancel, "--list": list_}
    )
    given = {
        _FILE: reassignment_json_file is not None,
        "--topics-to-move-json-file": topics_to_move_json_file is not None,
        "--broker-list": broker_list is not None,
        "--disable-rack-aware": disable_rack_aware,
        "--throttle": throttle >= 0,
        "--replica-alter-log-dirs-throttle": replica_alter_log_dirs_throttle >= 0,
        "--additional": additional,
        "--preserve-throttles": preserve_throttles,
        "--disallow-replication-factor-change": disallow_replication_factor_change,
    }
    _check_options(chosen, {name for name, is_given in given.items() if is_given})
    if list_:
        with ReassignmentsAdmin(bootstrap_server) as admin:
            list_reassignments(admin)
        return
    if generate:
        assert topics_to_move_json_file is not None
        assert broker_list is not None
        _generate(bootstrap_server, topics_to_move_json_file, broker_list, rack_aware=not disable_rack_aware)
        return
    assert reassignment_json_file is not None
    assignments = read_reassignment(read_text(reassignment_json_file), reassignment_json_file)
    with ReassignmentsAdmin(bootstrap_server) as admin:
        if verify:
            verify_reassignment(admin, assignments, preserve_throttles=preserve_throttles)
        elif cancel:
            cancel_reassignment(admin, assignments, preserve_throttles=preserve_throttles, timeout_ms=timeout)
        else:
            execute_reassignment(
                admin,
                assignments,
                reassignment_json_file,
                additional=additional,
                throttle=throttle,
                log_dirs_throttle=replica_alter_log_dirs_throttle,
                timeout_ms=timeout,
                may_change_replication_factor=not disallow_replication_factor_change,
            )


_REQUIRED = {
    "--generate": {"--topics-to-move-json-file", "--broker-list"},
    "--execute": {_FILE},
    "--verify": {_FILE},
    "--cancel": {_FILE},
    "--list": set(),
}
_PERMITTED = {
    "--generate": {"--disable-rack-aware"},
    "--execute": {
        "--additional",
        "--throttle",
        "--replica-alter-log-dirs-throttle",
        "--disallow-replication-factor-change",
    },
    "--verify": {"--preserve-throttles"},
    "--cancel": {"--preserve-throttles"},
    "--list": set(),
}


def _chosen(actions: Mapping[str, bool]) -> str:
    """Return the one action that is given.

    Raises:
        OperatorError: none is, or several are.
    """
    chosen = [name for name, is_given in actions.items() if is_given]
    if len(chosen) != 1:
        raise OperatorError(
            f"Command must include exactly one action: {', '.join(actions)}",
            "See esp reassign-partitions --help for examples.",
        )
    return chosen[0]


def _generate(servers: str, topics_path: str, broker_list: str, *, rack_aware: bool) -> None:
    """Propose a reassignment of the topics that a file names to these brokers."""
    topics = read_topics(read_text(topics_path), topics_path)
    brokers = _brokers(broker_list)
    with ReassignmentsAdmin(servers) as admin, working("asking the brokers"):
        generate_reassignment(admin, topics, brokers, rack_aware=rack_aware)


def _check_options(chosen: str, given: set[str]) -> None:
    """Refuse an action without the options that it needs, or with options of other actions.

    Raises:
        OperatorError: an option is missing, or does not belong to the action.
    """
    missing = sorted(_REQUIRED[chosen] - given)
    if missing:
        raise OperatorError(f"Missing required argument {missing[0]}", f"{chosen} needs {' and '.join(missing)}.")
    strange = sorted(given - _REQUIRED[chosen] - _PERMITTED[chosen])
    if strange:
        raise OperatorError(
            f"Option {strange[0]} can't be used with action {chosen}", "See esp reassign-partitions --help."
        )


def _brokers(text: str) -> list[int]:
    words = [word.strip() for word in text.split(",")]
    strange = [word for word in words if not word.isdecimal()]
    if strange:
        raise OperatorError(f"--broker-list {text}: {strange[0]!r} is not a broker id", "Write numbers with commas.")
    brokers = [int(word) for word in words]
    twice = [broker for broker in dict.fromkeys(brokers) if brokers.count(broker) > 1]
    if twice:
        raise OperatorError(f"Broker list contains duplicate entries: {twice}", "Name each broker once.")
    return brokers
