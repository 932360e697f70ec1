"""``esp format``: give data directories their identity; the flags and rules of ``kafka-storage format``. ``esp random-uuid``: a cluster id.

Parsed by hand of the standard library, like ``esp broker``: ``esp cluster`` calls it while a user waits.
"""

import argparse
import re
import sys
import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from esp.cli.node.arguments import CommandParser
from esp.cli.node.settings import add_arguments, load_settings
from esp.model.errors import OperatorError
from esp.model.ids import DirectoryId, NodeId, uuid_from_base64, uuid_to_base64

if TYPE_CHECKING:
    from esp.broker.formatting import FirstVoters
    from esp.controller.bootstrap import FirstMetadata
    from esp.ports.env import Env
    from esp.raft.voters import VoterSet
    from esp.settings.broker import BrokerSettings

_EPILOG: Final = """\
examples:
  esp random-uuid                                         an id for a new cluster

  # a cluster of three, each node with its own settings; the list is the same on every node
  esp format --cluster-id ID --config node1.properties \\
      --initial-controllers 1@host1:9093:DIRECTORY-ID-1,2@host2:9093:DIRECTORY-ID-2,3@host3:9093:DIRECTORY-ID-3

  # a cluster of one that can grow, and a node that joins it later
  esp format --cluster-id ID --config node1.properties --standalone
  esp format --cluster-id ID --config node2.properties --no-initial-controllers

  # users that may log in from the start, one a line in a file that only you can read
  esp format --cluster-id ID --config node1.properties --standalone --add-scram - < users.txt

A directory id is another `esp random-uuid`. With controller.quorum.voters, Kafka's older static mode, none of the three flags is given.
"""

_CONTROLLER: Final = re.compile(r"(?P<id>[0-9]+)@(?P<address>.+):(?P<directory>[A-Za-z0-9_-]+)")


def build_parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    parser = CommandParser(
        prog="esp format",
        description="Prepare a node's data directories, before its first start in a cluster of several controllers.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--cluster-id", "-t", required=True, metavar="ID", help="the cluster that the node belongs to")
    add_arguments(parser)
    quorum = parser.add_mutually_exclusive_group()
    quorum.add_argument("--standalone", "-s", action="store_true", help="this controller is the first and only voter")
    quorum.add_argument(
        "--initial-controllers",
        "-I",
        metavar="ID@HOST:PORT:DIRECTORY-ID,...",
        help="the first voters; the same on every node",
    )
    quorum.add_argument(
        "--no-initial-controllers",
        "-N",
        action="store_true",
        help="the node joins an existing quorum",
    )
    parser.add_argument(
        "--ignore-formatted", "-g", action="store_true", help="skip directories that are already formatted"
    )
    parser.add_argument(
        "--feature",
        "-f",
        action="append",
        default=[],
        metavar="NAME=LEVEL",
        help="a feature's level in the new cluster, such as transaction.version=2; the same on every controller",
    )
    parser.add_argument(
        "--add-scram",
        "-S",
        action="append",
        default=[],
        metavar="MECHANISM=[name=USER,password=PASSWORD]",
        help="a user of the new cluster, such as SCRAM-SHA-256=[name=alice,password=secret], with iterations, salt and saltedpassword "
        "if wanted; the same users on every controller. - reads such lines from standard input, where no other user of the machine sees "
        "them",
    )
    return parser


def run(arguments: Sequence[str]) -> int:
    """Format a node's directories; return the exit status."""
    options = build_parser().parse_args(arguments)
    try:
        _format(options)
    except OperatorError as error:
        print(f"esp format: {error.problem}\n  {error.remedy}", file=sys.stderr)
        return 1
    return 0


def random_uuid() -> str:
    """Return a new id for a cluster or a directory. None begins with a hyphen, so that none is taken for an option."""
    while True:
        text = uuid_to_base64(uuid.uuid4())
        if not text.startswith("-"):
            return text


def print_random_uuid(arguments: Sequence[str]) -> int:
    """Run ``esp random-uuid``; return the exit status."""
    CommandParser(prog="esp random-uuid", description="Print a new id for a cluster or a directory.").parse_args(
        arguments
    )
    print(random_uuid())
    return 0


def _format(options: argparse.Namespace) -> None:
    # Imported here, as below, so that `esp format --help` and a wrong argument cost nothing.
    from esp.broker.formatting import Standalone
    from esp.broker.node_directories import controller_endpoints
    from esp.cli.node.added_users import read_added_users
    from esp.controller.bootstrap import FirstMetadata
    from esp.runtime.env import real_env

    settings = load_settings(options)
    cluster_id = options.cluster_id.strip()
    if not cluster_id:
        raise OperatorError("--cluster-id is empty", "Give the cluster's id; `esp random-uuid` makes one.")
    dynamic = options.standalone or options.initial_controllers is not None
    if settings.controller_quorum_voters and (dynamic or options.no_initial_controllers):
        raise OperatorError(
            "You cannot specify controller.quorum.voters and format the node with --initial-controllers, --no-initial-controllers "
            "or --standalone.",
            "For a dynamic quorum, give controller.quorum.bootstrap.servers instead of controller.quorum.voters.",
        )
    if settings.is_controller and not (settings.controller_quorum_voters or dynamic or options.no_initial_controllers):
        raise OperatorError(
            "Because controller.quorum.voters is not set on this controller, you must specify one of the following: --standalone, "
            "--initial-controllers, or --no-initial-controllers.",
            "For a new cluster of several nodes it is --initial-controllers, the same on every node.",
        )
    if options.standalone and not settings.is_controller:
        raise OperatorError(
            "You can only use --standalone on a controller.",
            "Leave it out, or give the node the role in process.roles.",
        )
    levels = parse_features(options.feature)
    env = real_env()
    credentials = read_added_users(options.add_scram, sys.stdin, env.random)
    voters: FirstVoters = None
    if options.initial_controllers is not None:
        voters = parse_initial_controllers(options.initial_controllers, settings.controller_listener_names[0])
        if settings.is_controller and settings.node_id not in {voter.key.node_id for voter in voters.voters}:
            raise OperatorError(
                f"--initial-controllers does not name node {settings.node_id}, which is a controller.",
                "Add it on every node, or format this one with --no-initial-controllers and add it as a voter later.",
            )
    elif options.standalone:
        voters = Standalone(controller_endpoints(settings, env.host.name))
    for line in format_node(
        env,
        settings,
        cluster_id,
        voters,
        ignore_formatted=options.ignore_formatted,
        first=FirstMetadata(levels, credentials),
    ):
        print(line)


def parse_features(texts: Sequence[str]) -> dict[str, int]:
    """Read the values of ``--feature``: each a name, an equals sign and a level.

    Raises:
        OperatorError: one is not of that form, or names a feature or a level that this release does not have.
    """
    from esp.controller.features import SUPPORTED_FEATURES
    from esp.model.features import KRAFT_VERSION

    levels: dict[str, int] = {}
    for text in texts:
        name, _, level = text.partition("=")
        supported = SUPPORTED_FEATURES.get(name)
        if supported is None or name == KRAFT_VERSION:  # which the flags of the quorum decide
            known = ", ".join(known for known in SUPPORTED_FEATURES if known != KRAFT_VERSION)
            raise OperatorError(f"--feature {text}: there is no feature {name!r} to be set.", f"Name one of {known}.")
        if not level.isdecimal() or not supported.low <= int(level) <= supported.high:
            raise OperatorError(
                f"--feature {text}: {level!r} is no level of {name}.",
                f"Give a level from {supported.low} to {supported.high}.",
            )
        levels[name] = int(level)
    return levels


def format_node(
    env: "Env",
    settings: "BrokerSettings",
    cluster_id: str,
    voters: "FirstVoters",
    *,
    ignore_formatted: bool,
    first: "FirstMetadata | None" = None,
) -> list[str]:
    """Format a node's directories and return, in Kafka's words, what was done.

    Args:
        env: the outside.
        settings: the node's.
        cluster_id: the cluster that it belongs to.
        voters: the first voters of that cluster.
        ignore_formatted: whether directories may be formatted already.
        first: the levels of features and the users that the cluster begins with.

    Raises:
        OperatorError: a directory is formatted already, belongs to another node or cluster, or cannot be used.
    """
    from esp.broker.formatting import format_new_directories_blocking
    from esp.broker.node_directories import open_all_blocking
    from esp.controller.bootstrap import FirstMetadata
    from esp.controller.features import SUPPORTED_FEATURES
    from esp.model.features import METADATA_VERSION
    from esp.storage.layout import META_PROPERTIES_FILE
    from esp.storage.meta_properties import read_meta_properties

    paths = list(dict.fromkeys((*settings.log_dirs, settings.metadata_log_dir)))
    formatted = []
    for path in paths:  # looked at without opening: that takes the marker of an orderly stop
        meta = read_meta_properties(env.disk, f"{path}/{META_PROPERTIES_FILE}")
        if meta is None:
            continue
        meta.require(path, cluster_id=cluster_id, node_id=settings.node_id)
        if not ignore_formatted:
            raise OperatorError(
                f"Log directory {path} is already formatted.",
                "Use --ignore-formatted to ignore this directory and format the others.",
            )
        formatted.append(path)
    if formatted == paths:
        return ["All of the log directories are already formatted."]
    opened = open_all_blocking(env, settings)
    metadata = opened[settings.metadata_log_dir]
    try:
        format_new_directories_blocking(
            env,
            tuple(opened.values()),
            metadata,
            node_id=settings.node_id,
            voters=voters,
            cluster_id=cluster_id,
            first=first or FirstMetadata(),
        )
    finally:
        for directory in opened.values():
            directory.unlock()
    kinds = dict.fromkeys(paths, "data")
    kinds[metadata.path] = "dynamic metadata voter" if voters is not None else "metadata"
    version = f"{METADATA_VERSION} {SUPPORTED_FEATURES[METADATA_VERSION].high}"
    return [f"Formatting {kinds[path]} directory {path} with {version}." for path in paths if path not in formatted]


def parse_initial_controllers(text: str, listener: str) -> "VoterSet":
    """Read the value of ``--initial-controllers``: ``id@host:port:directory-id`` with commas between.

    Args:
        text: the value.
        listener: name of the listener that the addresses are those of.

    Raises:
        OperatorError: an entry is wrong, or an id stands twice.
    """
    from esp.raft.voters import Voter, VoterEndpoint, VoterKey, VoterSet
    from esp.settings.listeners import parse_address
    from esp.settings.setting import SettingError

    remedy = "Write each as id@host:port:directory-id, for example 1@host1:9093:" + random_uuid() + "."
    voters: dict[int, Voter] = {}
    for entry in (part.strip() for part in text.split(",")):
        match = _CONTROLLER.fullmatch(entry)
        try:
            if match is None:
                raise SettingError("it is not of that form")
            host, port = parse_address(match["address"])
            directory_id = DirectoryId(uuid_from_base64(match["directory"]))
        except ValueError as error:
            raise OperatorError(f"--initial-controllers {entry}: {error}", remedy) from error
        node_id = NodeId(int(match["id"]))
        if node_id in voters:
            raise OperatorError(f"--initial-controllers: Node id {node_id} was specified more than once.", remedy)
        voters[node_id] = Voter(VoterKey(node_id, directory_id), (VoterEndpoint(listener, host, port),))
    return VoterSet(tuple(voters[node_id] for node_id in sorted(voters)))
