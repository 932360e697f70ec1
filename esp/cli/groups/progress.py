"""The progress of groups in partitions and topics: what they have committed, what is there to be read, and the members that read it."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from esp.cli.groups.changes import now_ms
from esp.cli.kafka.answers import CommittedOffset, GroupInfo, GroupMember, PartitionId
from esp.cli.kafka.groups import GroupsAdmin
from esp.cli.kafka.held_records import first_unread_times, look_at_held
from esp.cli.output import in_one_line, print_warning
from esp.model.unread_records import Unread, judge_unread

Scope = Mapping[str, Collection[int] | None]
"""The topics that are looked at, and their partitions; None: all of a topic."""

_SILENT: Final = Unread(None, None, None, "its leader does not answer")


class Progress(NamedTuple):
    """The progress of a group in a partition. None: nothing is committed, the end is not known, or it is no member's."""

    partition: PartitionId
    committed: CommittedOffset | None
    log_end_offset: int | None
    member: GroupMember | None
    is_there: bool
    """False: it was deleted."""
    unread: Unread | None = None
    """None: it was not asked for."""

    @property
    def lag(self) -> int | None:
        """Records that the group has not read."""
        if self.committed is None or self.log_end_offset is None:
            return None
        return self.log_end_offset - self.committed.offset

    @property
    def urgency(self) -> tuple[bool, bool, int, int]:
        """Lower than that of a partition that needs less attention: something is wrong, or records are lost later, or fewer are unread."""
        loss_ms = None if self.unread is None else self.unread.loss_ms
        note = "" if self.unread is None else self.unread.note
        return not note, loss_ms is None, loss_ms or 0, -(self.lag or 0)

    @property
    def is_done(self) -> bool:
        """True if all is read, for all that is known, and nothing is wrong."""
        return not self.lag and not (self.unread is not None and self.unread.note)


class Summary(NamedTuple):
    """The progress of a group in several partitions; None for what is known of none of them."""

    partitions: int
    lagging: int
    """The partitions with records that the group has not read."""
    lag: int | None
    behind_ms: int | None
    """The age of the oldest record that is not read."""
    loss_ms: int | None
    """The least time until one of them may be deleted."""
    notes: int
    """Partitions in which something is wrong."""


def summarize(progress: Iterable[Progress]) -> Summary:
    """Return the progress of several partitions as one."""
    every = list(progress)
    lags = [each.lag for each in every if each.lag is not None]
    unread = [each.unread for each in every if each.unread is not None]
    return Summary(
        len(every),
        sum(lag > 0 for lag in lags),
        sum(lags) if lags else None,
        max((each.behind_ms for each in unread if each.behind_ms is not None), default=None),
        min((each.loss_ms for each in unread if each.loss_ms is not None), default=None),
        sum(bool(each.note) for each in unread),
    )


def by_topic(progress: Iterable[Progress]) -> dict[str, list[Progress]]:
    """The progress by topic, in the same order."""
    topics: dict[str, list[Progress]] = {}
    for each in progress:
        topics.setdefault(each.partition.topic, []).append(each)
    return topics


def read_progress(admin: GroupsAdmin, info: GroupInfo, scope: Scope | None = None) -> list[Progress]:
    """Return how far a group is in the partitions that it has committed or reads, sorted.

    Args:
        admin: where to ask.
        info: the group.
        scope: of these partitions only; None: of all.
    """
    committed = admin.committed(info.group_id)
    members = {partition: member for member in info.members for partition in member.assignment}
    concerned = sorted(each for each in {*committed, *members} if scope is None or _is_in(each, scope))
    there = {each for some in admin.partitions({each.topic for each in concerned}).values() for each in some}
    ends, silent = admin.known_ends([each for each in concerned if each in there])
    if silent:
        leaders = ", ".join(f"broker {leader}" if leader >= 0 else "none" for leader in silent)
        print_warning(
            f"log end offsets of partitions of {in_one_line(info.group_id)} are unknown: leaders that do not answer: {leaders}"
        )
    return [Progress(each, committed.get(each), ends.get(each), members.get(each), each in there) for each in concerned]


def with_times(servers: str, admin: GroupsAdmin, group: str, progress: Sequence[Progress]) -> list[Progress]:
    """Return the same with the ages of unread records; a warning tells of how many partitions no record came.

    Args:
        servers: bootstrap servers.
        admin: a connection to them.
        group: the group.
        progress: without times.
    """
    ends = {each.partition: each.log_end_offset for each in progress if each.log_end_offset is not None}
    offsets = {each.partition: each.committed.offset for each in progress if each.committed is not None}
    held = look_at_held(servers, admin, ends, group)
    times = first_unread_times(servers, offsets, held)
    late = sum(
        each not in times and each in held and held[each].first_unread(offset) is not None
        for each, offset in offsets.items()
    )
    if late:
        print_warning(f"no unread record came of {late} partitions of {in_one_line(group)}: their ages are not known")
    at_ms = now_ms()
    return [
        each._replace(
            unread=judge_unread(offsets.get(each.partition), held.get(each.partition), times.get(each.partition), at_ms)
            if each.partition in held or not each.is_there
            else _SILENT
        )
        for each in progress
    ]


def _is_in(partition: PartitionId, scope: Scope) -> bool:
    if partition.topic not in scope:
        return False
    numbers = scope[partition.topic]
    return numbers is None or partition.partition in numbers
