"""The disks of nodes under chaos: one that can be full, and log directories that are lost while their node is down."""

import contextlib
import os
import resource
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from esp.testing.cluster import Cluster
from esp.testing.node_process import NodeProcess

LOG_DIRECTORIES: Final = ("a", "b")
"""The entries of ``log.dirs`` of a node, in its directory."""

METADATA_DIRECTORY: Final = "metadata"
"""The directory of the metadata log is no entry of ``log.dirs``: a voter that lost it has to be replaced, which no start does."""


class Disk:
    """The disk of one node, which can be full: a small file system in memory where that is allowed, else a limit on file sizes."""

    def __init__(self, cluster: Cluster, node: int, size_bytes: int) -> None:
        self._cluster = cluster
        self._node = node
        self._path = cluster.nodes[node].data_dir
        self._path.mkdir(parents=True, exist_ok=True)
        mount = ["mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "tmpfs", str(self._path)]
        self._mounted = os.geteuid() == 0 and subprocess.run(mount, capture_output=True, check=False).returncode == 0

    def fill(self) -> None:
        """Leave not a byte."""
        if not self._mounted:
            self._limit(4096)
            return
        with contextlib.suppress(OSError), (self._path / "filler").open("ab", buffering=0) as filler:
            while True:
                filler.write(bytes(64 * 1024))

    def free(self) -> None:
        """Give the room back."""
        if self._mounted:
            (self._path / "filler").unlink(missing_ok=True)
        else:
            self._limit(resource.RLIM_INFINITY)

    def close(self) -> None:
        """Unmount."""
        if self._mounted:
            subprocess.run(["umount", "--lazy", str(self._path)], check=False)

    def _limit(self, size: int) -> None:
        node = self._cluster.nodes[self._node]
        if node.is_running:
            resource.prlimit(node.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


class LogDirectories:
    """The log directories of one node. All that is done to them is done while the node is down, and counts from its next start on.

    Args:
        node: the process; its ``log.dirs`` names all of them.
    """

    def __init__(self, node: NodeProcess) -> None:
        self._node = node
        self._all = node.log_dirs

    def remove_log(self, topic: str, partition: int) -> None:
        """The directory of the one replica of a partition vanishes."""
        logs = [path / f"{topic}-{partition}" for path in self._node.log_dirs]
        [found] = [log for log in logs if log.exists()]
        shutil.rmtree(found)

    def find(self, topics: Iterable[str]) -> list[Path]:
        """The directories that hold replicas of some topics."""
        return [path for path in self._node.log_dirs if any(any(path.glob(f"{topic}-*")) for topic in topics)]

    def empty(self, path: Path) -> None:
        """A directory comes back empty: its disk was replaced."""
        shutil.rmtree(path)
        path.mkdir()

    def take_out(self, path: Path) -> None:
        """A directory is lost, and the setting does not name it any more."""
        shutil.rmtree(path)
        self._set([other for other in self._node.log_dirs if other != path])

    def put_back(self) -> None:
        """The setting names all directories again: one that had been taken out is empty."""
        self._set(self._all)

    def _set(self, paths: Iterable[Path]) -> None:
        self._node.settings["log.dirs"] = ",".join(map(str, paths))


def directory_settings(node_directory: Path) -> dict[str, str]:
    """The settings that give a node its directories, all below one."""
    return {
        "log.dirs": ",".join(str(node_directory / name) for name in LOG_DIRECTORIES),
        "metadata.log.dir": str(node_directory / METADATA_DIRECTORY),
    }
