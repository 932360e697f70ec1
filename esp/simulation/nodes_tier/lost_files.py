"""Losses from a node's disk while the node is down: a log directory, a partition's directory, files of a log.

Nothing in the node's markers tells of it. A node that lost something so must not be counted on for it, however it ended before (BRK-11,
REC-11). That shows where it was eligible when it ended and comes back before all others: some of the losses come at just such a moment. For
the ledger each of them is a lost copy.
"""

import dataclasses
from collections.abc import Iterator
from random import Random
from typing import Final

from esp.model.ids import METADATA_PARTITION, TopicPartition
from esp.simulation.nodes_tier.caretaker import Caretaker
from esp.simulation.nodes_tier.cluster import DATA, MORE
from esp.simulation.nodes_tier.faults import Fault
from esp.simulation.nodes_tier.ledger import Ledger
from esp.simulation.nodes_tier.node import SimulatedNode
from esp.simulation.nodes_tier.old_copies import OldCopies
from esp.simulation.nodes_tier.world import World
from esp.storage.layout import CLEAN_SHUTDOWN_FILE, INDEX_SUFFIXES, LOG_SUFFIX, DirectoryKind, parse_directory_name

AIMED_SHARE: Final = 0.6
"""The share of the losses that befall a node that is the only one that may lead when it is back."""

ORDERLY_SHARE: Final = 0.5
"""The share of the losses before which the node was shut down cleanly."""

DIRECTORY_SHARE: Final = 0.5
"""The share of the losses in which one of the log directories goes, where there are two."""

DROPPED_SHARE: Final = 0.5
"""The share of the log directories that go which the operator takes out of the settings, too. The others come back empty."""


class LostFiles:
    """Takes directories or files from a disk while its node is down.

    Args:
        world: the cluster that it befalls.
        ledger: what is allowed.
        caretaker: is notified of the losses.
        moments: brings the node down when it hurts.
    """

    def __init__(self, world: World, ledger: Ledger, caretaker: Caretaker, moments: OldCopies) -> None:
        self._world = world
        self._ledger = ledger
        self._caretaker = caretaker
        self._moments = moments

    def bring(self, fault: Fault, node: SimulatedNode) -> bool:
        """Let something vanish while the node is down, which it will be. The fault's amount is the seed of what is chosen."""
        if node.node_id not in self._world.profile.layout.brokers or not node.is_serving:
            return False
        if not self._ledger.may_lose_copy(node.node_id) or self._moments.is_last_somewhere(node):
            return False
        rng = Random(repr(fault.amount))  # noqa: S311 - by seed, on purpose
        is_aimed, in_order = rng.random() < AIMED_SHARE, rng.random() < ORDERLY_SHARE

        def lose(partition: tuple[str, int] | None) -> None:
            self.lose(node, rng, partition)

        self._world.spawn(
            self._moments.strike(node, lose, "loses files while it is down", is_aimed=is_aimed, in_order=in_order)
        )
        return True

    def lose(self, node: SimulatedNode, rng: Random, partition: tuple[str, int] | None) -> None:
        """Let something vanish from a dead node's disk.

        Args:
            node: the node.
            rng: says what.
            partition: of which something is to go; None: of any.
        """
        node.disk.crash()
        replicas = dict(_find_replicas(node))
        wanted = TopicPartition(*partition) if partition is not None else None
        aimed = [path for path, name in replicas.items() if name == wanted]
        is_directory = MORE in node.settings.log_dirs and rng.random() < DIRECTORY_SHARE
        if is_directory and (not aimed or aimed[0].startswith(f"{MORE}/")):
            self._lose_directory(node, rng, replicas)
            return
        if not replicas:
            return
        path = aimed[0] if aimed else rng.choice(sorted(replicas))
        kinds = ["directory", "segments"]
        # The number of segments that a killed process had not flushed is not known: one of several is not missed (REC-11). A process that
        # is asked to stop may be killed before it has.
        if node.disk.exists(f"{path.rpartition('/')[0]}/{CLEAN_SHUTDOWN_FILE}"):
            kinds.append("file")
        kind = rng.choice(kinds)
        self._note(node, f"the {kind} of {path}")
        self._caretaker.on_moved_away(node, path)
        if kind == "directory":
            node.disk.remove_tree(path)
        else:
            logs = [name for name in node.disk.listdir(path) if name.endswith(LOG_SUFFIX)]
            gone = [rng.choice(logs)] if kind == "file" and logs else logs
            for name in gone:
                base = name[: -len(LOG_SUFFIX)]
                for suffix in (LOG_SUFFIX, *INDEX_SUFFIXES):
                    if node.disk.exists(f"{path}/{base}{suffix}"):
                        node.disk.remove(f"{path}/{base}{suffix}")
            node.damaged[path] = None
            node.disk.sync_directory_blocking(path)
        node.disk.sync_directory_blocking(path.rpartition("/")[0])

    def _lose_directory(self, node: SimulatedNode, rng: Random, replicas: dict[str, TopicPartition]) -> None:
        self._note(node, MORE)
        for path in replicas:
            if path.startswith(f"{MORE}/"):
                self._caretaker.on_moved_away(node, path)
        node.disk.remove_tree(MORE)
        node.disk.sync_directory_blocking("/")
        if rng.random() < DROPPED_SHARE:
            node.settings = dataclasses.replace(node.settings, log_dirs=(DATA,))

    def _note(self, node: SimulatedNode, what: str) -> None:
        self._world.trace.say(node.name, f"has lost {what}")
        self._ledger.lost_files += 1
        self._ledger.on_copy_lost(node.node_id, self._world.loop.time())


def _find_replicas(node: SimulatedNode) -> Iterator[tuple[str, TopicPartition]]:
    """The directories of replicas on a node's disk, the metadata log's excepted."""
    for root in (DATA, MORE):
        for name in node.disk.listdir(root) if node.disk.exists(root) else ():
            parsed = parse_directory_name(name)
            if parsed is not None and parsed.kind is DirectoryKind.REPLICA and parsed.partition != METADATA_PARTITION:
                yield f"{root}/{name}", parsed.partition
