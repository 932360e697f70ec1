"""A reader of Delta tables by their log alone, as its format is published: what a table has is what this finds, whatever wrote it."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq

from esp.consumer.messages import Partition


class Table(NamedTuple):
    """A table.

    Attributes:
        actions: of all commits, in order.
        files: the paths that are in it, in the order in which they were added.
        applications: the newest versions of application transactions.
    """

    actions: list[dict[str, Any]]
    files: list[str]
    applications: dict[str, int]


def read_log(directory: Path) -> Table:
    """Read the log of a table, and see that no file is added twice, and that no application goes back."""
    commits = sorted((directory / "_delta_log").glob("*.json"))
    assert [int(path.stem) for path in commits] == [*range(len(commits))]
    actions: list[dict[str, Any]] = []
    added: list[str] = []
    removed: set[str] = set()
    applications: dict[str, int] = {}
    for path in commits:
        for line in path.read_text().splitlines():
            action = json.loads(line)
            actions.append(action)
            if "add" in action:
                assert action["add"]["path"] not in added, "a file is added once"
                added.append(action["add"]["path"])
            elif "remove" in action:
                removed.add(action["remove"]["path"])
            elif "txn" in action:
                told = action["txn"]
                assert told["version"] > applications.get(told["appId"], -1), "an application does not go back"
                applications[told["appId"]] = told["version"]
    assert any("protocol" in action for action in actions)
    return Table(actions, [path for path in added if path not in removed], applications)


def offsets_in_table(directory: Path, partition: Partition) -> list[int]:
    """The offsets that a table has of a partition, in the order in which they came."""
    found: list[int] = []
    for path in read_log(directory).files:
        rows = pq.read_table(directory / path, columns=["partition", "offset"], partitioning=None).to_pylist()
        found += [row["offset"] for row in rows if row["partition"] == partition.number]
    return found
