"""``esp quorum``: the voters and observers of the metadata log with their lag; adds and removes voters.

The output has the words of ``kafka-metadata-quorum``.
"""

from enum import StrEnum
from typing import Annotated, Final

import typer

from esp.cli.kafka.answers import QuorumInfo, QuorumMember, RefusedError
from esp.cli.kafka.client import LOOK_TIMEOUT_S, NoControllerError
from esp.cli.kafka.cluster import ClusterAdmin
from esp.cli.kafka.voters import add_voter, remove_voter
from esp.cli.options import BootstrapServer, Json
from esp.cli.output import console, print_json, print_line, print_table
from esp.cli.text_files import PLACES, read_text
from esp.model.errors import OperatorError
from esp.model.ids import DirectoryId, NodeId, uuid_from_base64, uuid_to_base64
from esp.raft.voters import Voter, VoterEndpoint, VoterKey
from esp.settings.addresses import ANY_PORT
from esp.settings.node import load_broker_settings
from esp.storage.layout import META_PROPERTIES_FILE
from esp.storage.meta_properties import MetaProperties


class Action(StrEnum):
    """The actions of the command."""

    DESCRIBE = "describe"
    ADD = "add-controller"
    REMOVE = "remove-controller"


_KNOWN: Final = (
    "the voters, the newest epoch and its own end of the log are those that the asked broker knows, the leader (-1: none) and the high "
    "watermark the last ones that it knew; the other members' ends of the log (-1) are unknown"
)
_REMOVING: Final = "Voter to remove"


def quorum(
    do: Annotated[Action, typer.Argument(metavar="ACTION", help="describe, add-controller or remove-controller.")],
    bootstrap_server: BootstrapServer = "127.0.0.1:9092",
    replication: Annotated[
        bool, typer.Option("--replication", help="describe: show the replication state of each node.")
    ] = False,
    config: Annotated[
        str | None,
        typer.Option("--config", "-c", metavar="FILE", help="add-controller: the settings file of the node to add."),
    ] = None,
    controller_id: Annotated[
        int | None, typer.Option("--controller-id", "-i", min=0, help="The node's id.", rich_help_panel=_REMOVING)
    ] = None,
    controller_directory_id: Annotated[
        str | None,
        typer.Option(
            "--controller-directory-id",
            "-d",
            help="The directory's id; may be left out if the node has one voter.",
            rich_help_panel=_REMOVING,
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the change without making it.")] = False,
    json: Json = False,
) -> None:
    """Show the metadata quorum: its leader, voters and observers. Add and remove voters.

    add-controller runs on the host of the node, which runs and observes; its directory's id is read from its data directory.

    [bold]Examples[/bold]

    esp quorum describe

    esp quorum describe --replication

    esp quorum add-controller --config node4.properties

    esp quorum remove-controller --controller-id 4
    """
    _check_options(
        do,
        {
            "--replication": (replication, Action.DESCRIBE),
            "--json": (json, Action.DESCRIBE),
            "--config": (config is not None, Action.ADD),
            "--controller-id": (controller_id is not None, Action.REMOVE),
            "--controller-directory-id": (controller_directory_id is not None, Action.REMOVE),
        },
    )
    if do is Action.DESCRIBE:
        if dry_run:
            raise OperatorError("--dry-run: nothing is changed by describe", "Leave it out.")
        _look(bootstrap_server, replication=replication, json=json)
    elif do is Action.ADD:
        _add(bootstrap_server, _voter_of(config), dry_run=dry_run)
    else:
        _remove(bootstrap_server, controller_id, controller_directory_id, dry_run=dry_run)


def _check_options(do: Action, given: dict[str, tuple[bool, Action]]) -> None:
    for name, (is_given, action) in given.items():
        if is_given and action is not do:
            raise OperatorError(f"{name} is for {action.value}, not for {do.value}", "See esp quorum --help.")


def _voter_of(path: str | None) -> Voter:
    """The node whose settings stand in a file, as a voter.

    Raises:
        OperatorError: no file is named, or it is of no controller, or of a node that was not formatted.
    """
    if path is None:
        raise OperatorError("add-controller needs --config", "Name the file with which the node was started.")
    settings = load_broker_settings(read_text(path), file_name=path, places=PLACES)
    endpoints = tuple(
        VoterEndpoint(each.name, each.host, each.port) for each in settings.advertised_controller_listeners
    )
    if not endpoints:
        raise OperatorError(
            f"{path}: node {settings.node_id} has no controller listener",
            "Give it the role controller in process.roles, and a listener in controller.listener.names.",
        )
    if any(each.port == ANY_PORT for each in endpoints):
        raise OperatorError(
            f"{path}: the controller listener of node {settings.node_id} has no fixed port",
            "Name one in listeners: the other voters must find the node there after every start.",
        )
    where = f"{settings.metadata_log_dir}/{META_PROPERTIES_FILE}"
    try:
        meta = MetaProperties.decode(read_text(where).encode())
    except ValueError as error:
        raise OperatorError(f"{where}: {error}", "Name the file with which the node was started.") from error
    if meta.node_id != settings.node_id:
        raise OperatorError(f"{where} belongs to node {meta.node_id}", f"{path} is for node {settings.node_id}.")
    return Voter(VoterKey(meta.node_id, meta.directory_id), endpoints)


def _chosen(found: QuorumInfo, node: int, directory: str | None) -> VoterKey:
    """The voter to be removed.
    Raises:
        OperatorError: there is no such voter, or more than one.
    """
    ids = [member.directory_id for member in found.voters if member.node_id == node]
    if directory is None and len(ids) != 1:
        many = f"{node} has {len(ids)} voters: {', '.join(ids)}" if ids else f"node {node} is not a voter"
        raise OperatorError(many, "See the voters: esp quorum describe. Choose by --controller-directory-id.")
    try:
        return VoterKey(NodeId(node), DirectoryId(uuid_from_base64(ids[0] if directory is None else directory)))
    except ValueError as error:
        raise OperatorError(
            f"--controller-directory-id {directory}: not a directory id", "See the voters: esp quorum describe"
        ) from error


def _add(servers: str, voter: Voter, *, dry_run: bool) -> None:
    key = voter.key
    if not dry_run:
        try:
            add_voter(servers, voter)
        except RefusedError as error:
            raise OperatorError(
                f"node {key.node_id} was not added: {error.message}",
                "It must run and have caught up: esp quorum describe --replication",
            ) from error
    endpoints = ", ".join(f"{each.listener}://{each.host}:{each.port}" for each in voter.endpoints)
    print_line(
        f"{'DRY RUN of adding' if dry_run else 'Added'} controller {key.node_id} with directory id "
        f"{uuid_to_base64(key.directory_id)} and endpoints: {endpoints}"
    )


def _remove(servers: str, node: int | None, directory: str | None, *, dry_run: bool) -> None:
    if node is None:
        raise OperatorError("remove-controller needs --controller-id", "See the voters: esp quorum describe")
    with ClusterAdmin(servers) as admin:
        key = _chosen(admin.quorum(), node, directory)
    if not dry_run:
        try:
            remove_voter(servers, key)
        except RefusedError as error:
            raise OperatorError(
                f"node {key.node_id} was not removed: {error.message}", "See the voters: esp quorum describe"
            ) from error
    print_line(
        f"{'DRY RUN of removing' if dry_run else 'Removed'} KRaft controller {key.node_id} with directory id "
        f"{uuid_to_base64(key.directory_id)}"
    )


def _look(servers: str, *, replication: bool, json: bool) -> None:
    """Describe the quorum; without its leader, as far as the asked broker knows it.

    Raises:
        OperatorError: no controller is active.
    """
    with ClusterAdmin(servers, LOOK_TIMEOUT_S) as admin:
        try:
            _describe(admin.quorum(), replication=replication, json=json)
        except NoControllerError as error:
            if error.known is None:
                raise
            _describe(error.known, replication=replication, json=json)
            raise OperatorError(f"{error.problem}: {_KNOWN}", error.remedy) from error


def _describe(found: QuorumInfo, *, replication: bool, json: bool) -> None:
    if json:
        told = found._asdict()
        for key in ("voters", "observers"):
            told[key] = [member._asdict() for member in told[key]]
        print_json(told)
    elif replication:
        _print_replication(found)
    else:
        _print_status(found)


def _print_status(found: QuorumInfo) -> None:
    print_line(f"LeaderId: {found.leader}")
    print_line(f"LeaderEpoch: {found.leader_epoch}")
    print_line(f"HighWatermark: {found.high_watermark}")
    for title, members in (("Voter", found.voters), ("Observer", found.observers)):
        for member in members:
            line = f"{title}: {member.node_id}\tDirectoryId: {member.directory_id}"
            print_line(line + (f"\tAddresses: {','.join(member.addresses)}" if member.addresses else ""))


def _print_replication(found: QuorumInfo) -> None:
    columns = ("NodeId", "DirectoryId", "LogEndOffset", "Lag", "LastFetchTimestamp", "LastCaughtUpTimestamp", "Status")
    end = max((member.log_end_offset for member in found.voters if member.node_id == found.leader), default=-1)

    def row(member: QuorumMember, status: str) -> tuple[str, ...]:
        status = "Leader" if member.node_id == found.leader else status
        lag = end - member.log_end_offset if end >= 0 else "-"  # only the leader tells its own end
        numbers = (lag, member.last_fetch_timestamp, member.last_caught_up_timestamp)
        return (str(member.node_id), member.directory_id, str(member.log_end_offset), *map(str, numbers), status)

    rows = [row(member, "Follower") for member in found.voters] + [
        row(member, "Observer") for member in found.observers
    ]
    if console.is_terminal:
        print_table(columns, rows)
        return
    for each in (columns, *rows):
        print_line("\t".join(each))
