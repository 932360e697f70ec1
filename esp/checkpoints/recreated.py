"""Topics that were created again under a checkpoint, which holds no ids: a group to which its query commits has them. Pure."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from esp.checkpoints.batch_files import Place
from esp.checkpoints.checkpoint import Checkpoint
from esp.model.position_note import NO_ID, PositionNote, id_text, newest_batch, remember

GROUP_PREFIX: Final = "spark."
"""The beginning of the names of the groups to which ``esp.spark.watch`` commits; the query's name or id follows."""

Noted = Mapping[Place, tuple[int, PositionNote]]
"""Committed offsets, with what stands beside them."""


class Witness(NamedTuple):
    """A group to which a query commits its position, with the ids of topics beside it."""

    group: str
    offsets: Noted

    @property
    def batch(self) -> int | None:
        """The newest batch of which it knows; None: it knows of no numbers."""
        return newest_batch(note for _, note in self.offsets.values())


def group_of_query(query_id: str) -> str:
    """The group of a query without a name."""
    return f"{GROUP_PREFIX}{query_id}"


def find_witness(query_id: str, groups: Mapping[str, Noted]) -> Witness | None:
    """Return the group to which a query has committed last; None: to none of these.

    Args:
        query_id: of the query.
        groups: the committed offsets of groups.
    """
    found = [
        Witness(name, offsets)
        for name, offsets in sorted(groups.items())
        if offsets and (name == group_of_query(query_id) or any(note.query == query_id for _, note in offsets.values()))
    ]
    return max(found, key=lambda one: -1 if one.batch is None else one.batch, default=None)


def find_recreated(checkpoint: Checkpoint, witness: Witness, present: Mapping[str, str]) -> dict[str, str]:
    """Return of each topic of a checkpoint that was created again what is known of it, in words.

    Args:
        checkpoint: the query's.
        witness: a group to which it commits.
        present: the ids of the topics that are there, as Kafka's tools write them.
    """
    ids = remember(checkpoint.offsets, witness.offsets).ids
    since = ""
    if witness.batch is not None and witness.batch != checkpoint.committed:
        since = f" since batch {witness.batch}"
    found = {}
    for topic in sorted({place.topic for place in checkpoint.offsets} & present.keys() & ids.keys()):
        before = ids[topic]
        if not before:
            or_added = ", or added" if since else ""
            found[topic] = f"topic created again{or_added}{since}: its offsets in group {witness.group} are gone"
        elif before != NO_ID and present[topic] and id_text(before) != present[topic]:
            found[topic] = f"topic created again{since}: id {id_text(before)}, now {present[topic]}"
    return found
