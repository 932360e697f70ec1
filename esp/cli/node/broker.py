"""``esp broker``: run one node in the foreground.

Parsed by hand of the standard library and importing nothing of the tools' libraries: a node is to be ready in about half a second.
"""

import argparse
import asyncio
import contextlib
import gc
import logging
import os
import signal
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from esp.cli.node.arguments import CommandParser
from esp.cli.node.settings import add_arguments, load_settings, security_path
from esp.model.errors import OperatorError
from esp.runtime.log_flood import FloodFilter

if TYPE_CHECKING:
    from esp.broker.app import BrokerNode
    from esp.cli.node.lone_security import LoneNode
    from esp.settings.broker import BrokerSettings

PID_FILE: Final = "broker.pid"

_EPILOG: Final = """\
examples:
  esp broker                                              data in ./esp-data, clients on 127.0.0.1:9092
  esp broker --data-dir /var/lib/esp --set listeners=PLAINTEXT://0.0.0.0:9092 \\
             --set advertised.listeners=PLAINTEXT://broker1.example:9092
  esp broker --secure                                     only for clients that log in: ./esp-data-security/admin has their settings
  esp broker --secure --set listeners=CLIENTS://0.0.0.0:9092 \\
             --set advertised.listeners=CLIENTS://broker1.example:9092
  esp broker --config server.properties                   a Kafka node's own settings file

Prints one line `ready node=ID listening=HOST:PORT` once it takes requests, logs to stderr, and shuts down cleanly on SIGTERM or SIGINT.
Settings have Kafka's names. With --data-dir and no `log.dirs`, the data directory is also the only log directory.
"""


def build_parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    parser = CommandParser(
        prog="esp broker",
        description="Run one node in the foreground: broker, controller, or both (process.roles).",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_arguments(parser)
    parser.add_argument(
        "--secure",
        action="store_true",
        help="make a node that serves only clients that log in, and do what rules allow: TLS, SCRAM, an authorizer; the directory "
        "DATA_DIR-security/admin has the settings of an administrator's clients",
    )
    parser.add_argument(
        "--stop-with-stdin",
        action="store_true",
        help="shut down cleanly when standard input ends: for programs that run nodes",
    )
    parser.add_argument(
        "--log-level",
        default="info",
        choices=("debug", "info", "warning", "error"),
        help="the level of the log on stderr (default: info)",
    )
    return parser


def run(arguments: Sequence[str]) -> int:
    """Run a node until it is told to stop; return the exit status."""
    options = build_parser().parse_args(arguments)
    logging.basicConfig(
        stream=sys.stderr,
        level=options.log_level.upper(),
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    for handler in logging.getLogger().handlers:
        handler.addFilter(FloodFilter())
    try:
        return _run(options)
    except OperatorError as error:
        print(f"esp broker: {error.problem}\n  {error.remedy}", file=sys.stderr)
        return 1


def _run(options: argparse.Namespace) -> int:
    gc.disable()  # nothing of what is loaded is garbage, and looking through it again and again is a tenth of the work
    # Imported here so that `esp broker --help` and a wrong argument cost nothing.
    import uvloop

    from esp.broker.app import BrokerNode
    from esp.runtime.env import real_env
    from esp.runtime.interpreter import search_regularly, shorten_pauses, spare_what_exists
    from esp.runtime.unhandled import stop_on_unhandled_errors

    spare_what_exists()
    gc.enable()
    env = real_env()
    lone: LoneNode | None = None
    if options.secure:
        from esp.cli.node.lone_security import prepare_blocking

        lone = prepare_blocking(env, options)
        settings = lone.settings
    else:
        settings = load_settings(options)
        _require_no_security(options, settings)
    data_dir = options.data_dir or settings.log_dirs[0]

    async def serve() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        stop_on_unhandled_errors(loop, env.host)
        if options.stop_with_stdin:
            loop.add_reader(sys.stdin, _take_stdin, loop, stop)
        node = BrokerNode(env, settings)
        if not await _start(node, stop):
            return
        pid_path = os.path.join(data_dir, PID_FILE)
        _write_pid(pid_path)
        if lone is not None:
            lone.on_ready_blocking(env, node.listening[0])
        print(f"ready node={settings.node_id} listening={node.listening[0]}", flush=True)
        spare_what_exists()
        node.warm_up(spare_what_exists)
        search_regularly(loop)
        await stop.wait()
        await node.stop()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(pid_path)

    shorten_pauses()
    uvloop.run(serve())
    return 0


def _require_no_security(options: argparse.Namespace, settings: "BrokerSettings") -> None:
    """Keep a node that was made secure from serving anyone because an option was forgotten."""
    path = security_path(options.data_dir or settings.log_dirs[0])
    if options.config is None and not settings.tls and os.path.exists(path):
        raise OperatorError(
            f"This node was made secure, and would serve everyone now: {path} has its certificates.",
            "Start it with --secure. If it shall be open, move that directory away.",
        )


async def _start(node: "BrokerNode", stop: asyncio.Event) -> bool:
    """Start the node unless it is told to stop first: a start may wait long for other controllers."""
    starting = asyncio.create_task(node.start())
    told = asyncio.create_task(stop.wait())
    await asyncio.wait((starting, told), return_when=asyncio.FIRST_COMPLETED)
    told.cancel()
    if starting.done():
        await starting
        return True
    starting.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await starting
    logging.getLogger(__name__).warning(
        "stop was requested before the start was complete: the process ends without a clean shutdown"
    )
    return False


def _take_stdin(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    """Read standard input; at its end stop the node, since the process that runs it has ended."""
    if not os.read(sys.stdin.fileno(), 4096):
        loop.remove_reader(sys.stdin)
        stop.set()


def _write_pid(path: str) -> None:
    try:
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        with open(path, "w", encoding="ascii") as file:
            file.write(f"{os.getpid()}\n")
    except OSError as error:
        raise OperatorError(f"Cannot write {path}: {error}", "Make the directory writable for this user.") from error
