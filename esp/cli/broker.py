"""``esp broker``: run one node in the foreground.

Parsed by hand of the standard library and importing nothing of the tools' libraries: a node is to be ready in about half a second.
"""

import argparse
import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Sequence
from typing import Final

from esp.model.errors import OperatorError

DEFAULT_DATA_DIR: Final = "esp-data"
PID_FILE: Final = "broker.pid"

_EPILOG: Final = """\
examples:
  esp broker                                              data in ./esp-data, clients on 127.0.0.1:9092
  esp broker --data-dir /var/lib/esp --set listeners=PLAINTEXT://0.0.0.0:9092 \\
             --set advertised.listeners=PLAINTEXT://broker1.example:9092
  esp broker --config server.properties                   a Kafka node's own settings file

Prints one line `ready node=ID listening=HOST:PORT` once it takes requests, logs to stderr, and shuts down in order on SIGTERM or SIGINT.
Settings have Kafka's names. With --data-dir and no `log.dirs`, the data directory is also the only log directory.
"""


def build_parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    parser = argparse.ArgumentParser(
        prog="esp broker",
        description="Run one node, broker and controller in one, in the foreground.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--config", metavar="FILE", help="a server.properties file")
    parser.add_argument(
        "--data-dir", metavar="DIR", help=f"where the node keeps its data (default: log.dirs, or ./{DEFAULT_DATA_DIR})"
    )
    parser.add_argument(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        dest="overrides",
        help="a setting that goes before the file's; may be given several times",
    )
    parser.add_argument(
        "--log-level",
        default="info",
        choices=("debug", "info", "warning", "error"),
        help="how much is logged to stderr (default: info)",
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
    try:
        return _run(options)
    except OperatorError as error:
        print(f"esp broker: {error.problem}\n  {error.remedy}", file=sys.stderr)
        return 1


def _run(options: argparse.Namespace) -> int:
    # Imported here so that `esp broker --help` and a wrong argument cost nothing.
    import uvloop

    from esp.broker.app import BrokerNode
    from esp.model.settings import load_broker_settings
    from esp.runtime.env import real_env
    from esp.runtime.unhandled import stop_on_unhandled_errors

    overrides = list(options.overrides)
    if options.data_dir is not None and not any(text.partition("=")[0].strip() == "log.dirs" for text in overrides):
        overrides.append(f"log.dirs={options.data_dir}")
    settings = load_broker_settings(_read_config(options.config), overrides)
    data_dir = options.data_dir or settings.log_dirs[0]

    async def serve() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        env = real_env()
        stop_on_unhandled_errors(loop, env.host)
        node = BrokerNode(env, settings)
        await node.start()
        pid_path = os.path.join(data_dir, PID_FILE)
        _write_pid(pid_path)
        first = node.listening[0]
        print(f"ready node={settings.node_id} listening={first}", flush=True)
        await stop.wait()
        await node.stop()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(pid_path)

    uvloop.run(serve())
    return 0


def _read_config(path: str | None) -> str | None:
    if path is None:
        return None
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise OperatorError(
            f"Cannot read the settings file {path}: {error}", "Give the path of a readable file."
        ) from error


def _write_pid(path: str) -> None:
    try:
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        with open(path, "w", encoding="ascii") as file:
            file.write(f"{os.getpid()}\n")
    except OSError as error:
        raise OperatorError(f"Cannot write {path}: {error}", "Make the directory writable for this user.") from error
