"""Keeps the nodes of a cluster on this host: starts them, takes them down with itself, and starts one again when it is asked to.

No node outlives the keeper: each node has the reading end of a pipe as its standard input, and only the keeper holds the writing end. When
the keeper ends, for whatever reason, the pipes are closed, and the nodes do a clean shutdown.

Another command asks the keeper to start a node again, or to add one, over a socket in the cluster's directory: one line of JSON each way
(:func:`ask_keeper`).
"""

import asyncio
import contextlib
import fcntl
import os
import signal
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Final

import msgspec

from esp.cli.node.cluster_plan import HOST, ClusterPlan, format_added_node, require_free_ports, write_cluster_file
from esp.model.errors import OperatorError
from esp.model.ids import NodeId
from esp.runtime.env import real_env

CONTROL_SOCKET: Final = "cluster.sock"
LOCK_FILE: Final = ".cluster.lock"
START_TIMEOUT_S: Final = 60.0
STOP_TIMEOUT_S: Final = 30.0
"""A clean shutdown that takes longer is cut short (SIGKILL)."""
SHOWN_LOG_BYTES: Final = 2_000


class Request(msgspec.Struct, frozen=True):
    """A request to the keeper: to start a node again, or (None) to add one."""

    restart_node: int | None


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """The keeper's answer: the new process, or the problem and its remedy."""

    pid: int = 0
    node: int = 0
    address: str = ""
    """The node's address for clients."""
    problem: str = ""
    remedy: str = ""


class ClusterKeeper:
    """The processes of one cluster.

    Args:
        plan: the cluster; its nodes are formatted.
        log_level: of the nodes.
    """

    def __init__(self, plan: ClusterPlan, log_level: str) -> None:
        self._plan = plan
        self._log_level = log_level
        self._processes: dict[NodeId, asyncio.subprocess.Process] = {}
        self._watchers: dict[NodeId, asyncio.Task[None]] = {}
        self._stopping = False
        self._adding = False
        self._restarting: set[NodeId] = set()
        self._control: asyncio.Server | None = None

    async def start(self) -> None:
        """Start all nodes and return when all are ready.

        Raises:
            OperatorError: a node did not come up; the others still run.
        """
        for node_id in self._plan.node_ids:
            await self._spawn(node_id)
        self._write_cluster_file()
        await asyncio.gather(*(self._wait_until_ready(node_id) for node_id in self._plan.node_ids))
        with contextlib.chdir(self._plan.directory):  # a path from here is short enough for a socket's name
            _remove_control_socket()
            self._control = await asyncio.start_unix_server(self._serve_control, CONTROL_SOCKET)

    async def stop(self) -> None:
        """Stop all nodes in order, at the same time: each finds a quorum until all have handed over."""
        self._stopping = True
        if self._control is not None:
            self._control.close()
            with contextlib.chdir(self._plan.directory):
                _remove_control_socket()
        running = {node_id: process for node_id, process in self._processes.items() if process.returncode is None}
        for process in running.values():
            process.terminate()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STOP_TIMEOUT_S):
                for process in running.values():
                    await process.wait()
        for node_id, process in running.items():
            if process.returncode is None:
                _say(f"node {node_id} did not stop within {STOP_TIMEOUT_S:.0f} s and is killed")
                process.kill()
            await process.wait()
            if process.returncode != 0:
                _say(f"node {node_id} stopped with status {process.returncode}; see {self._plan.log_path(node_id)}")
        for watcher in self._watchers.values():
            await watcher

    async def _spawn(self, node_id: NodeId) -> None:
        plan = self._plan
        with plan.log_path(node_id).open("ab") as log:
            self._processes[node_id] = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "esp", "broker", "--config", str(plan.config_path(node_id))),
                *("--log-level", self._log_level, "--stop-with-stdin"),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for this process; it stops the nodes
            )

    async def _wait_until_ready(self, node_id: NodeId) -> None:
        process = self._processes[node_id]
        assert process.stdout is not None, "it is piped"
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                while line := await process.stdout.readline():
                    if line.startswith(b"ready "):
                        self._watchers[node_id] = asyncio.create_task(self._watch(node_id, process))
                        return
                await process.wait()
                problem = f"Node {node_id} ended with status {process.returncode} at its start"
        except TimeoutError:
            process.kill()
            problem = f"Node {node_id} was not ready within {START_TIMEOUT_S:.0f} s"
        path = self._plan.log_path(node_id)
        raise OperatorError(
            f"{problem}:\n{_tail(path)}", f"Fix the problem that the log names; the whole log is in {path}."
        )

    async def _watch(self, node_id: NodeId, process: asyncio.subprocess.Process) -> None:
        """Report a node that ended without being asked to."""
        status = await process.wait()
        if not self._stopping:
            _say(
                f"node {node_id} (pid {process.pid}) ended with status {status}; start it again with "
                f"`esp cluster restart-node --dir {self._plan.directory} {node_id}`"
            )

    def _write_cluster_file(self) -> None:
        pids: Mapping[NodeId, int] = {node_id: process.pid for node_id, process in self._processes.items()}
        write_cluster_file(self._plan.directory, self._plan.entries(pids))

    async def _serve_control(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = msgspec.json.decode(await reader.readline(), type=Request)
            if request.restart_node is None:
                answer = await self._add()
            else:
                answer = await self._restart(NodeId(request.restart_node))
        except msgspec.DecodeError as error:
            answer = Answer(problem=f"The request is invalid: {error}", remedy="Use the release that the cluster runs.")
        except OperatorError as error:
            answer = Answer(problem=error.problem, remedy=error.remedy)
        with contextlib.suppress(ConnectionError):
            writer.write(msgspec.json.encode(answer) + b"\n")
            await writer.drain()
        writer.close()

    async def _restart(self, node_id: NodeId) -> Answer:
        if node_id not in self._processes:
            raise OperatorError(f"There is no node {node_id}.", f"Give a number from 1 to {self._plan.nodes}.")
        if self._stopping:
            raise OperatorError("The cluster is stopping.", "Start it again as a whole.")
        before = self._processes[node_id]
        if node_id in self._restarting:
            raise OperatorError(f"Node {node_id} is being started already.", "Wait until it is ready.")
        if before.returncode is None:
            raise OperatorError(
                f"Node {node_id} runs (pid {before.pid}).", f"To restart it, stop it first: kill {before.pid}"
            )
        self._restarting.add(node_id)
        try:
            await self._spawn(node_id)
            self._write_cluster_file()
            await self._wait_until_ready(node_id)
        finally:
            self._restarting.discard(node_id)
        return self._answer(node_id)

    async def _add(self) -> Answer:
        if self._stopping:
            raise OperatorError("The cluster is stopping.", "Start it again as a whole.")
        if self._adding:
            raise OperatorError("A node is being added already.", "Wait until it is ready.")
        plan = self._plan.with_one_more()
        node_id = plan.node_ids[-1]
        self._adding = True
        try:
            require_free_ports(plan, [node_id])
            format_added_node(real_env(), plan)
            self._plan = plan
            await self._spawn(node_id)
            self._write_cluster_file()
            await self._wait_until_ready(node_id)
        finally:
            self._adding = False
        return self._answer(node_id)

    def _answer(self, node_id: NodeId) -> Answer:
        return Answer(self._processes[node_id].pid, node_id, f"{HOST}:{self._plan.port_of(node_id)}")


def lock_directory(directory: Path) -> IO[bytes]:
    """Make sure that one cluster runs in a directory at a time; the lock is held as long as the file is open.

    Raises:
        OperatorError: another one runs there, or the directory cannot be used.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        file = (directory / LOCK_FILE).open("wb")
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise OperatorError(
            f"A cluster runs in {directory} already.", "Stop it first, or give another --dir and --port."
        ) from None
    except OSError as error:
        raise OperatorError(
            f"{directory} cannot be used: {error}", "Give a --dir that this user may write to."
        ) from error
    return file


async def keep(plan: ClusterPlan, log_level: str) -> None:
    """Run a cluster until SIGTERM or SIGINT.

    Raises:
        OperatorError: a node did not come up; nothing runs any more.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    keeper = ClusterKeeper(plan, log_level)
    starting = asyncio.create_task(keeper.start())
    told = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait((starting, told), return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            await starting
            print(f"ready bootstrap={plan.bootstrap}", flush=True)
            await told
    finally:
        starting.cancel()
        told.cancel()
        await keeper.stop()


def ask_keeper(directory: Path, request: Request, timeout_s: float = START_TIMEOUT_S + 10) -> Answer:
    """Ask the keeper of the cluster in ``directory``.

    Raises:
        OperatorError: none runs there, it does not answer, or it refuses.
    """
    try:
        with contextlib.chdir(directory), socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(timeout_s)
            connection.connect(CONTROL_SOCKET)
            connection.sendall(msgspec.json.encode(request) + b"\n")
            with connection.makefile("rb") as stream:
                answer = msgspec.json.decode(stream.readline(), type=Answer)
    except (OSError, msgspec.DecodeError) as error:
        raise OperatorError(
            f"No cluster runs in {directory} ({error}).", f"Start it: esp cluster start --dir {directory}"
        ) from error
    if answer.problem:
        raise OperatorError(answer.problem, answer.remedy)
    return answer


def _remove_control_socket() -> None:
    with contextlib.suppress(FileNotFoundError):  # one that a killed keeper left behind
        os.unlink(CONTROL_SOCKET)


def _tail(path: Path) -> str:
    with path.open("rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - SHOWN_LOG_BYTES))
        return file.read().decode(errors="replace").rstrip()


def _say(text: str) -> None:
    print(f"esp cluster: {text}", file=sys.stderr, flush=True)
