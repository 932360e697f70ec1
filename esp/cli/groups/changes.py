"""Groups deleted, and their offsets deleted or put elsewhere, as ``kafka-consumer-groups`` does."""

import time
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from esp.cli.groups.offset_reset import (
    Bounds,
    Offsets,
    Target,
    format_offsets_csv,
    new_offset,
    parse_topics,
)
from esp.cli.kafka.answers import PartitionId, RefusedError
from esp.cli.kafka.groups import GroupsAdmin
from esp.cli.output import print_columns, print_json, print_line, print_warning, working
from esp.model.errors import ErrorCode, OperatorError

_INACTIVE: Final = ("Empty", "Dead")


class Reset(NamedTuple):
    """A reset of a group's committed offsets.
    ``topics`` as given with ``--topic``, None for all that the group has committed; ``value`` as
    :func:`~esp.cli.groups.offset_reset.new_offset` takes it, for TIME milliseconds since the Unix epoch; ``offsets`` for FILE.
    """

    target: Target
    value: int
    topics: Sequence[str] | None
    offsets: Offsets


def delete_groups(admin: GroupsAdmin, groups: Sequence[str]) -> None:
    """Delete groups.

    Raises:
        OperatorError: some could not be deleted; the others are gone.
    """
    deleted: list[str] = []
    refused: list[str] = []
    with working("deleting"):
        for group in groups:
            try:
                admin.delete_group(group)
            except RefusedError as error:
                refused.append(f"{group} ({error.message})")
            else:
                deleted.append(group)
    if deleted:
        print_line(
            f"Deletion of requested consumer groups ({', '.join(f'{each!r}' for each in deleted)}) was successful."
        )
    if refused:
        raise OperatorError(
            f"not deleted: {', '.join(refused)}", "A group must exist and have no members: esp groups --list --state"
        )


def delete_offsets(admin: GroupsAdmin, group: str, topics: Sequence[str]) -> None:
    """Make a group forget its offsets of topics.

    Raises:
        OperatorError: there is no such topic or group, or it reads the topic.
    """
    wanted = _partitions(admin, topics)
    found = admin.delete_offsets(group, wanted)
    failed = [each for each, code in found.items() if code is not ErrorCode.none]
    if not failed:
        print_line(f"Request succeeded for deleting offsets from group {group}.")
    print_line("")
    print_columns(
        [("TOPIC", 15), ("PARTITION", 10), ("STATUS", 15)],
        [
            [*_cells(each), "Successful" if code is ErrorCode.none else f"Error: {code.name.upper()}"]
            for each, code in found.items()
        ],
    )
    if failed:
        raise OperatorError(
            f"group {group} keeps offsets of {len(failed)} of {len(found)} partitions",
            "Offsets of a topic that members of the group read cannot be deleted.",
        )


def reset_offsets(
    admin: GroupsAdmin, groups: Sequence[str], reset: Reset, *, execute: bool, export: bool, json: bool
) -> None:
    """Put groups' offsets elsewhere, or only say where they would go.

    Raises:
        OperatorError: a group has members, or there is no such topic or partition.
    """
    planned: Offsets = {}
    with working("looking for the offsets"):
        for group in groups:
            _require_inactive(admin, group)
            planned[group] = plan_reset(admin, group, reset)
    if execute:
        with working("committing"):
            for group, offsets in planned.items():
                admin.commit(group, offsets)
    if export:
        for line in format_offsets_csv(planned):
            print_line(line)
        return
    if json:
        print_json(
            [
                {"group_id": group, **each._asdict(), "new_offset": offset}
                for group, offsets in planned.items()
                for each, offset in sorted(offsets.items())
            ]
        )
        return
    print_line("")
    print_columns(
        [("GROUP", 15), ("TOPIC", 15), ("PARTITION", 10), ("NEW-OFFSET", 15)],
        [
            [group, *_cells(each), str(offset)]
            for group, offsets in planned.items()
            for each, offset in sorted(offsets.items())
        ],
    )


def plan_reset(admin: GroupsAdmin, group: str, reset: Reset) -> dict[PartitionId, int]:
    """Return where a group's offsets are to go.

    Raises:
        OperatorError: there is no such topic or partition, or nothing to shift.
    """
    committed = {each: offset.offset for each, offset in admin.committed(group).items()}
    given = reset.offsets.get(group, {})
    if reset.target is Target.FILE:
        wanted = _existing(admin, given)
    elif reset.topics is None:
        wanted = _existing(admin, committed)
    else:
        wanted = _partitions(admin, reset.topics)
    if not wanted:
        return {}
    earliest, latest = admin.earliest(wanted), admin.latest(wanted)
    values = dict.fromkeys(wanted, reset.value)
    if reset.target is Target.TIME:
        values = admin.since(wanted, reset.value)
    elif reset.target is Target.FILE:
        values = given
    planned: dict[PartitionId, int] = {}
    for each in wanted:
        bounds = Bounds(earliest[each], latest[each], committed.get(each))
        try:
            planned[each] = new_offset(reset.target, values[each], bounds)
        except ValueError as error:
            raise OperatorError(
                f"{each.topic}-{each.partition}: {error} of group {group}", "Name partitions that it has read."
            ) from error
        asked = values[each] + (bounds.committed or 0) if reset.target is Target.SHIFT else values[each]
        if reset.target in (Target.OFFSET, Target.SHIFT, Target.FILE) and asked != planned[each]:
            print_warning(
                f"New offset ({asked}) is {'higher than latest' if asked > bounds.latest else 'lower than earliest'} offset "
                f"for topic partition {each.topic}-{each.partition}. Value will be set to {planned[each]}"
            )
    return planned


def now_ms() -> int:
    """Milliseconds since the Unix epoch."""
    return time.time_ns() // 1_000_000


def _require_inactive(admin: GroupsAdmin, group: str) -> None:
    try:
        state = admin.describe(group).state
    except RefusedError as error:
        if error.code is not ErrorCode.group_id_not_found:
            raise
        return  # it comes into being with its offsets; of one of the consumer protocol (KIP-848) the coordinator judges the commit
    if state not in _INACTIVE:
        raise OperatorError(
            f"Assignments can only be reset if the group '{group}' is inactive, but the current state is {state}.",
            f"Stop its members; esp groups --describe --members --group {group} shows them.",
        )


def _partitions(admin: GroupsAdmin, topics: Sequence[str]) -> list[PartitionId]:
    """Return the partitions that ``--topic`` options name."""
    scope = parse_topics(topics)
    there = admin.partitions(scope)
    chosen: list[PartitionId] = []
    for topic, numbers in scope.items():
        if topic not in there:
            raise OperatorError(f"there is no topic {topic}", "See the topics: esp topics --list")
        missing = (numbers or frozenset()) - {each.partition for each in there[topic]}
        if missing:
            raise OperatorError(
                f"topic {topic} has no partition {min(missing)}", f"It has {len(there[topic])}, counted from 0."
            )
        chosen += [each for each in there[topic] if numbers is None or each.partition in numbers]
    return chosen


def _existing(admin: GroupsAdmin, wanted: Iterable[PartitionId]) -> list[PartitionId]:
    there = admin.partitions({each.topic for each in wanted})
    return sorted(each for each in wanted if each in there.get(each.topic, ()))


def _cells(partition: PartitionId) -> tuple[str, str]:
    return partition.topic, str(partition.partition)
