"""``esp cluster``: several nodes on this host, as separate processes, started and ended together.

Parsed by hand of the standard library, like ``esp broker``: a cluster of three is to be ready within 2.5 seconds.
"""

import argparse
import asyncio
import json
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from esp.cli.node.arguments import CommandParser
from esp.cli.node.settings import add_overrides
from esp.cli.properties import parse_pairs
from esp.model.errors import OperatorError

DEFAULT_NODES: Final = 3
DEFAULT_PORT: Final = 19092
DEFAULT_DIR: Final = "esp-cluster"

_START_EPILOG: Final = """\
Clients connect to PORT, PORT+1, ...; controllers listen on PORT+100, PORT+101, ...; all on 127.0.0.1. DIR/cluster.json lists the nodes,
DIR/node-N.log is the log of node N, DIR/node-N.properties has its settings. Prints one line `ready bootstrap=HOST:PORT,...` once all nodes
take requests. SIGTERM or SIGINT shuts all nodes down cleanly; they stop too when this process is killed.

From three nodes on, topics that are created without a replication factor get three replicas (default.replication.factor=3), and a write
with acks=all needs two of them in sync (min.insync.replicas=2), unless --set says otherwise. An odd number of nodes, at most five, are
controllers too.

A secure cluster stays secure. Its nodes listen on PORT+200, PORT+201, ... for one another.

examples:
  esp cluster start --nodes 3 --dir /tmp/demo
  esp topics --create --topic t --bootstrap-server 127.0.0.1:19092
  kill -9 $(cat /tmp/demo/node-2/broker.pid); esp cluster status --dir /tmp/demo
  esp cluster restart-node --dir /tmp/demo 2
  esp cluster add-node --dir /tmp/demo

  esp cluster start --secure --dir /tmp/safe
  export ESP_BOOTSTRAP_SERVER=127.0.0.1:19092 ESP_COMMAND_CONFIG=/tmp/safe/security/admin/client.properties
  esp users add alice
"""


def build_parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    parser = CommandParser(prog="esp cluster", description="Run several nodes on this host.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    start = commands.add_parser(
        "start",
        help="run a cluster in the foreground",
        description="Run a cluster in the foreground; a new one is formatted first.",
        epilog=_START_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    start.add_argument(
        "--nodes", type=int, metavar="N", help=f"number of nodes (default: the existing ones, or {DEFAULT_NODES})"
    )
    _add_directory(start)
    start.add_argument(
        "--port", type=int, help=f"the first node's port for clients (default: unchanged, or {DEFAULT_PORT})"
    )
    add_overrides(start)
    start.add_argument(
        "--rack-per-node", action="store_true", help="make each node a rack of its own (broker.rack=rack-N)"
    )
    start.add_argument(
        "--secure",
        action="store_true",
        help="make a cluster that serves only clients that log in, and do what rules allow: TLS, SCRAM, certificates between nodes, an "
        "authorizer; DIR/security/admin has the settings of an administrator's clients",
    )
    start.add_argument(
        "--log-level",
        default="info",
        choices=("debug", "info", "warning", "error"),
        help="the log level of the nodes (default: info)",
    )
    start.set_defaults(run=_start)
    restart = commands.add_parser("restart-node", help="restart a node that has ended", description=_restart.__doc__)
    _add_directory(restart)
    restart.add_argument("node", type=int, metavar="N", help="the node's number")
    restart.set_defaults(run=_restart)
    add = commands.add_parser("add-node", help="add a node to a running cluster", description=_add_node.__doc__)
    _add_directory(add)
    add.set_defaults(run=_add_node)
    status = commands.add_parser("status", help="show which nodes run", description=_status.__doc__)
    _add_directory(status)
    status.add_argument("--json", action="store_true", help="print JSON, for programs")
    status.set_defaults(run=_status)
    return parser


def run(arguments: Sequence[str]) -> int:
    """Run the command; return the exit status."""
    options = build_parser().parse_args(arguments)
    try:
        status: int = options.run(options)
    except OperatorError as error:
        print(f"esp cluster: {error.problem}\n  {error.remedy}", file=sys.stderr)
        return 1
    return status


def _add_directory(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--dir", type=Path, default=Path(DEFAULT_DIR), help=f"the directory of the cluster (default: ./{DEFAULT_DIR})"
    )


def _start(options: argparse.Namespace) -> int:
    # Imported here, as below, so that `esp cluster --help` and a wrong argument cost nothing.
    from esp.cli.node.cluster_plan import SECURITY_DIR, ClusterPlan, format_cluster, require_free_ports
    from esp.cli.node.keeper import keep, lock_directory
    from esp.cli.whole_files import keep_files_private
    from esp.runtime.env import real_env

    directory = options.dir.absolute()
    if options.secure or (directory / SECURITY_DIR).exists():
        keep_files_private()
    with lock_directory(directory):
        plan = ClusterPlan(
            directory=directory,
            **_choose_size(directory, options.nodes, options.port),
            overrides=parse_pairs("--set", options.overrides),
            rack_per_node=options.rack_per_node,
            is_secure=_choose_security(directory, is_wanted=options.secure),
        )
        require_free_ports(plan)
        format_cluster(real_env(), plan)
        asyncio.run(keep(plan, options.log_level))
    return 0


def _choose_size(directory: Path, nodes: int | None, port: int | None) -> dict[str, int]:
    """The number of nodes and the first port: as given, as before, or by default. Ports stay: a voter's address is in the metadata."""
    from esp.cli.node.cluster_plan import CLUSTER_FILE, read_cluster_file

    if not (directory / CLUSTER_FILE).exists():
        if nodes is not None and nodes < 1:
            raise OperatorError(f"--nodes {nodes}: a cluster has at least one.", "Give a number above 0.")
        return {"nodes": DEFAULT_NODES if nodes is None else nodes, "port": DEFAULT_PORT if port is None else port}
    there = read_cluster_file(directory)
    if nodes is not None and nodes < len(there):
        raise OperatorError(
            f"--nodes {nodes}: {directory} holds {len(there)}.", f"Give at least {len(there)}, or another --dir."
        )
    if port not in (None, there[0].port):
        raise OperatorError(
            f"--port {port}: the nodes in {directory} have the ports from {there[0].port} on.",
            f"Leave it out, give {there[0].port}, or another --dir.",
        )
    return {"nodes": len(there) if nodes is None else nodes, "port": there[0].port}


def _choose_security(directory: Path, *, is_wanted: bool) -> bool:
    """True if the cluster is secure: as asked for, or as it was made."""
    from esp.cli.node.cluster_plan import CLUSTER_FILE, SECURITY_DIR

    is_there = (directory / SECURITY_DIR).exists()
    if is_wanted and not is_there and (directory / CLUSTER_FILE).exists():
        raise OperatorError(
            f"--secure: {directory} holds a cluster that was made without it.",
            "Leave it out, or make a new cluster in another --dir.",
        )
    return is_wanted or is_there


def _restart(options: argparse.Namespace) -> int:
    """Restart a node that has ended, in a running cluster, and wait until it is ready."""
    from esp.cli.node.keeper import Request, ask_keeper

    answer = ask_keeper(options.dir, Request(options.node))
    print(f"ready node={options.node} pid={answer.pid}")
    return 0


def _add_node(options: argparse.Namespace) -> int:
    """Add a node to a running cluster, with the next number and port, and wait until it is ready.

    It has the cluster's settings, and holds nothing until it gets replicas: `esp rebalance plan spread`, or rebalance.mode=apply. It
    has no vote in the metadata quorum. It stays a part of the cluster when that is started again.
    """
    from esp.cli.node.keeper import Request, ask_keeper

    answer = ask_keeper(options.dir, Request(None))
    print(f"ready node={answer.node} listening={answer.address} pid={answer.pid}")
    return 0


def _status(options: argparse.Namespace) -> int:
    """Say which nodes run; the exit status is 0 if all take connections."""
    from esp.cli.node.cluster_plan import read_cluster_file

    entries = read_cluster_file(options.dir)
    running = [_answers(entry.host, entry.port) for entry in entries]
    if options.json:
        rows = [
            {"node_id": entry.node_id, "pid": entry.pid, "address": entry.address, "running": runs, "dir": entry.dir}
            for entry, runs in zip(entries, running, strict=True)
        ]
        print(json.dumps(rows))
    else:
        for entry, runs in zip(entries, running, strict=True):
            print(
                f"node {entry.node_id}  {entry.address}  {f'running (pid {entry.pid})' if runs else 'down'}  {entry.dir}"
            )
    return 0 if all(running) else 1


def _answers(host: str, port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((host, port)) == 0
