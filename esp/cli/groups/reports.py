"""Groups listed and described, in the columns of ``kafka-consumer-groups`` or as JSON."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from esp.cli.durations import format_span
from esp.cli.groups.progress import Progress, Scope, Summary, by_topic, read_progress, summarize, with_times
from esp.cli.kafka.answers import GroupInfo, GroupListing, PartitionId, RefusedError
from esp.cli.kafka.groups import CoordinatorSilentError, GroupsAdmin
from esp.cli.output import in_one_line, print_columns, print_json, print_line, print_note, print_warning, working
from esp.model.errors import ErrorCode, OperatorError

STATES: Final = (
    "Stable",
    "PreparingRebalance",
    "CompletingRebalance",
    "Empty",
    "Dead",
    "Assigning",
    "Reconciling",
)
"""The states that groups of consumers can be in."""

TYPES: Final = ("Classic", "Consumer", "Share")

_SHOWN_PARTITIONS: Final = 12
"""The partitions of a member that its line shows, where a line of each partition follows that names its member."""

_EACH_SHOWN: Final = 100
"""The partitions of a group up to which all are shown at once with the rest of it; of more, sums by topic and the most urgent ones."""
_URGENT_SHOWN: Final = 20
_ALL_TOPICS: Final = "(all)"
"""The place of the topic in the line of the whole group; no topic has such a name."""

_SHARE: Final = "share"
_UNKNOWN: Final = "-"


def parse_words(option: str, text: str | None, known: Sequence[str]) -> frozenset[str] | None:
    """Read words with commas between them, in any case; None without any, which means all.

    Raises:
        OperatorError: one is not known.
    """
    words = [word.strip().lower() for word in (text or "").split(",") if word.strip()]
    for word in words:
        if word not in map(str.lower, known):
            raise OperatorError(f"{option} {text}: {word} is unknown", f"Known are {', '.join(known)}.")
    return frozenset(words) or None


def known_groups(admin: GroupsAdmin, *, with_share_groups: bool = False) -> list[GroupListing]:
    """The groups of all brokers that answer; a warning names those that do not."""
    found, silent = admin.list_groups(with_share_groups=with_share_groups)
    if silent:
        print_warning(f"groups of brokers that do not answer are left out: {', '.join(map(str, silent))}")
    return found


def list_groups(admin: GroupsAdmin, states: str | None, types: str | None, json: bool) -> None:
    """Print the groups.

    Args:
        admin: where to ask.
        states: which ones, by commas; empty: all, with their states; None: all.
        types: likewise; None: all but share groups, for which the other actions are not.
        json: print JSON.
    """
    wanted_states = parse_words("--state", states, STATES)
    wanted_types = parse_words("--type", types, TYPES)
    found = [
        group
        for group in known_groups(admin, with_share_groups=types is not None)
        if (wanted_states is None or group.state.lower() in wanted_states)
        and (wanted_types is None or group.type_.lower() in wanted_types)
    ]
    if json:
        print_json([{"group_id": each.group_id, "state": each.state, "type": each.type_} for each in found])
    elif states is None and types is None:
        for each in found:
            print_line(in_one_line(each.group_id))
    else:
        _print_listing(found, with_types=types is not None, with_states=states is not None)


def _print_listing(found: Sequence[GroupListing], *, with_types: bool, with_states: bool) -> None:
    columns = [("GROUP", 25)] + [("TYPE", 20)] * with_types + [("STATE", 20)] * with_states
    print_columns(
        columns,
        [[each.group_id] + [each.type_.capitalize()] * with_types + [each.state] * with_states for each in found],
    )


def describe_whole(
    admin: GroupsAdmin, groups: Sequence[str], verbose: bool, json: bool, *, servers: str, scope: Scope | None = None
) -> None:
    """Print all that is known of groups: state and epochs, members with what they have, and how far the groups are, with times.

    Of a group with many partitions these are sums by topic, and the partitions that need attention first.

    Args:
        admin: where to ask.
        groups: of these.
        verbose: offsets with leader epochs, and all partitions.
        json: print JSON.
        servers: bootstrap servers, where the ages of records are read.
        scope: the offsets of these partitions only; None: of all.
    """
    told: list[dict[str, Any]] = []
    found = _describe_all(admin, groups)
    if not json:
        for info in found:
            _warn_of_state(info)
        _print_states(found, verbose=True)
    for info in found:
        if info.members and not json:
            _print_members(info, verbose=True, most=_SHOWN_PARTITIONS)
        with working(f"asking for {info.group_id}"):
            progress = with_times(servers, admin, info.group_id, read_progress(admin, info, scope))
        if json:
            topics = [{"topic": topic} | summarize(some)._asdict() for topic, some in by_topic(progress).items()]
            sums = {"summary": summarize(progress)._asdict(), "topics": topics}
            told.append(_as_json(info) | sums | {"offsets": [_progress_as_json(each) for each in progress]})
        elif len(progress) > _EACH_SHOWN and not verbose:
            _print_urgent(info.group_id, progress)
        elif progress:
            _print_progress(info.group_id, progress, verbose)
    if json:
        print_json(told)


def describe_offsets(
    admin: GroupsAdmin,
    groups: Sequence[str],
    verbose: bool,
    json: bool,
    *,
    times_from: str | None = None,
    scope: Scope | None = None,
) -> None:
    """Print how far groups are, by partition.

    Args:
        admin: where to ask.
        groups: of these.
        verbose: with leader epochs.
        json: print JSON.
        times_from: bootstrap servers, where the age of the first unread record is read and the time until it may be deleted; None: they
            are not printed.
        scope: of these partitions only; None: of all.
    """
    told: list[dict[str, Any]] = []
    for info in _describe_all(admin, groups):
        group = info.group_id
        with working(f"asking for {group}"):
            progress = read_progress(admin, info, scope)
            if times_from is not None:
                progress = with_times(times_from, admin, group, progress)
        if json:
            told.append(_as_json(info) | {"offsets": [_progress_as_json(each) for each in progress]})
            continue
        _warn_of_state(info)
        if progress:
            _print_progress(group, progress, verbose)
    if json:
        print_json(told)


def _print_urgent(group: str, progress: Sequence[Progress]) -> None:
    """Print sums of all partitions and of each topic, and the partitions that need attention first."""

    def row(topic: str, each: Summary) -> list[str]:
        counts = (str(each.partitions), str(each.lagging), _text(each.lag))
        return [group, topic, *counts, _span(each.behind_ms), _span(each.loss_ms), str(each.notes)]

    print_line("")
    print_columns(
        [
            *(("GROUP", 15), ("TOPIC", 15), ("#PARTITIONS", 11), ("#LAGGING", 10), ("LAG", 15)),
            *(("BEHIND", 12), ("LOSS-IN", 12), ("#NOTES", 0)),
        ],
        [
            row(_ALL_TOPICS, summarize(progress)),
            *(row(topic, summarize(some)) for topic, some in by_topic(progress).items()),
        ],
    )
    urgent = sorted((each for each in progress if not each.is_done), key=lambda each: each.urgency)[:_URGENT_SHOWN]
    if urgent:
        _print_progress(group, urgent, verbose=False)
    print_note(
        f"{len(progress) - len(urgent)} partitions more: add --topic NAME for those of a topic, --verbose for all."
    )


def _print_progress(group: str, progress: Sequence[Progress], verbose: bool) -> None:
    with_times = any(each.unread is not None for each in progress)

    def row(each: Progress) -> list[str]:
        epoch = each.committed.leader_epoch if each.committed is not None else -1
        member, unread = each.member, each.unread
        return [
            *(group, each.partition.topic, str(each.partition.partition)),
            *([_text(epoch if epoch >= 0 else None)] * verbose),
            *(_text(each.committed and each.committed.offset), _text(each.log_end_offset), _text(each.lag)),
            *((_span(unread.behind_ms), _span(unread.loss_ms)) if unread is not None else ()),
            *((member.member_id, member.host, member.client_id) if member else (_UNKNOWN,) * 3),
            *((unread.note,) if unread is not None else ()),
        ]

    print_line("")
    print_columns(
        [
            *(("GROUP", 15), ("TOPIC", 15), ("PARTITION", 10)),
            *([("LEADER-EPOCH", 15)] * verbose),
            *(("CURRENT-OFFSET", 15), ("LOG-END-OFFSET", 15), ("LAG", 15)),
            *([("BEHIND", 12), ("LOSS-IN", 12)] * with_times),
            *(("CONSUMER-ID", 15), ("HOST", 15), ("CLIENT-ID", 15 if with_times else 0)),
            *([("NOTE", 0)] * with_times),
        ],
        [row(each) for each in progress],
    )


def describe_members(admin: GroupsAdmin, groups: Sequence[str], verbose: bool, json: bool) -> None:
    """Print the members of groups, and with ``verbose`` the partitions of each member."""
    found = _describe_all(admin, groups)
    if json:
        print_json([_as_json(info) for info in found])
        return
    for info in found:
        _warn_of_state(info)
        _print_members(info, verbose)


def _print_members(info: GroupInfo, verbose: bool, *, most: int | None = None) -> None:
    """Print the members of a group.

    Args:
        info: the group.
        verbose: with the partitions of each.
        most: of these so many at most; None: all.
    """
    static = any(member.instance_id for member in info.members)
    columns = [("GROUP", 15), ("CONSUMER-ID", 15)] + [("GROUP-INSTANCE-ID", 17)] * static
    with_protocols = any(member.protocol != "classic" for member in info.members)
    columns += [("HOST", 15), ("CLIENT-ID", 15)] + [("PROTOCOL", 10)] * with_protocols + [("#PARTITIONS", 15)]
    if verbose:
        columns += [
            ("CURRENT-EPOCH", 15),
            ("CURRENT-ASSIGNMENT", 20),
            ("TARGET-EPOCH", 15),
            ("TARGET-ASSIGNMENT", 0),
        ]
    rows = []
    for member in info.members:
        row = [info.group_id, member.member_id] + [member.instance_id or ""] * static
        row += [member.host, member.client_id] + [member.protocol] * with_protocols + [str(len(member.assignment))]
        if verbose:
            target = _UNKNOWN if member.target is None else _assignment(member.target, most) or _UNKNOWN
            row += [_text(member.epoch), _assignment(member.assignment, most) or _UNKNOWN]
            row += [_text(info.assignment_epoch), target]
        rows.append(row)
    print_line("")
    print_columns(columns, rows)


def describe_states(admin: GroupsAdmin, groups: Sequence[str], verbose: bool, json: bool) -> None:
    """Print the states of groups, and their coordinators."""
    found = _describe_all(admin, groups)
    if json:
        print_json([_as_json(info) for info in found])
        return
    for info in found:
        _warn_of_state(info)
    _print_states(found, verbose)


def _print_states(found: Sequence[GroupInfo], verbose: bool) -> None:
    columns = [("GROUP", 15), ("COORDINATOR (ID)", 25), ("ASSIGNMENT-STRATEGY", 20), ("STATE", 20)]
    columns += [("GROUP-EPOCH", 15), ("TARGET-ASSIGNMENT-EPOCH", 25)] * verbose
    print_line("")
    print_columns(
        [*columns, ("#MEMBERS", 10), ("TYPE", 0)],
        [
            [
                *(info.group_id, f"{info.coordinator.host}:{info.coordinator.port}  ({info.coordinator.node_id})"),
                *(info.assignor or _UNKNOWN, info.state),
                *((_text(info.epoch), _text(info.assignment_epoch)) if verbose else ()),
                *(str(len(info.members)), info.type_.capitalize()),
            ]
            for info in found
        ],
    )


def _describe_all(admin: GroupsAdmin, groups: Sequence[str]) -> list[GroupInfo]:
    """The groups, without those whose coordinators do not answer; a warning names those.

    Raises:
        OperatorError: a group does not exist, or no coordinator answers.
    """
    found: list[GroupInfo] = []
    silent: list[CoordinatorSilentError] = []
    with working("asking the coordinators"):
        for group in groups:
            try:
                found.append(_describe(admin, group))
            except CoordinatorSilentError as error:
                silent.append(error)
    if silent and not found:
        raise silent[0]
    for each in silent:
        print_warning(each.problem)
    return found


def _describe(admin: GroupsAdmin, group: str) -> GroupInfo:
    try:
        return admin.describe(group)
    except RefusedError as error:
        if error.code is not ErrorCode.group_id_not_found:
            raise
        if _is_share_group(admin, group):
            raise OperatorError(
                f"group {group} is a share group, which commits no offsets",
                f"See its members, and the records that they have: esp queues describe --group {group}",
            ) from error
        raise OperatorError(error.message, "See the groups: esp groups --list") from error


def _is_share_group(admin: GroupsAdmin, group: str) -> bool:
    listed, _ = admin.list_groups(with_share_groups=True)
    return any((each.group_id, each.type_.lower()) == (group, _SHARE) for each in listed)


def _warn_of_state(info: GroupInfo) -> None:
    if info.state == "Empty":
        print_warning(f"Consumer group '{in_one_line(info.group_id)}' has no active members.")
    elif info.state in ("PreparingRebalance", "CompletingRebalance"):
        print_warning(f"Consumer group '{in_one_line(info.group_id)}' is rebalancing.")


def _assignment(partitions: Sequence[PartitionId], most: int | None) -> str:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in partitions[:most]:
        by_topic.setdefault(topic, []).append(partition)
    shown = ";".join(f"{topic}:{','.join(map(str, numbers))}" for topic, numbers in by_topic.items())
    left = 0 if most is None else len(partitions) - most
    return f"{shown},... ({left} more)" if left > 0 else shown


def _as_json(info: GroupInfo) -> dict[str, Any]:
    return {
        "group_id": info.group_id,
        "type": info.type_,
        "state": info.state,
        "coordinator": info.coordinator._asdict(),
        "assignor": info.assignor,
        "epoch": info.epoch,
        "assignment_epoch": info.assignment_epoch,
        "members": [
            member._asdict()
            | {"assignment": [partition._asdict() for partition in member.assignment]}
            | {"target": None if member.target is None else [partition._asdict() for partition in member.target]}
            for member in info.members
        ],
    }


def _progress_as_json(each: Progress) -> Mapping[str, Any]:
    return {
        **each.partition._asdict(),
        "current_offset": each.committed and each.committed.offset,
        "leader_epoch": each.committed and each.committed.leader_epoch,
        "log_end_offset": each.log_end_offset,
        "lag": each.lag,
        "member_id": each.member and each.member.member_id,
        **(
            {}
            if each.unread is None
            else {name: getattr(each.unread, name) for name in ("behind_ms", "loss_ms", "note")}
        ),
    }


def _text(number: int | None) -> str:
    return _UNKNOWN if number is None else str(number)


def _span(span_ms: int | None) -> str:
    return _UNKNOWN if span_ms is None else format_span(span_ms)
