"""The changes that ``esp reassign-partitions`` makes: reassignments begun and cancelled, and throttles around them."""

import time
from collections.abc import Mapping, Sequence
from typing import Final

from esp.cli.output import print_line
from esp.cli.reassign.checks import check_brokers, find_log_dirs, find_partitions
from esp.cli.reassign.reports import clear_throttles
from esp.model.errors import OperatorError
from esp.rebalance.cluster import (
    FOLLOWER_THROTTLED_RATE,
    LEADER_THROTTLED_RATE,
    LOG_DIRS_THROTTLED_RATE,
    ConfigTarget,
    ReassignmentAdmin,
    Replica,
)
from esp.rebalance.reassignment_json import Assignment, check_executable, chosen_log_dirs, write_reassignment
from esp.rebalance.reassignment_text import EXISTING, MUST_VERIFY, directory_moves, in_order, joined, plural
from esp.rebalance.throttles import brokers_of, copying_now, copying_with, throttled_replicas

_RETRY_BACKOFF_S: Final = 0.1


def execute_reassignment(
    admin: ReassignmentAdmin,
    assignments: Sequence[Assignment],
    source: str,
    *,
    additional: bool,
    throttle: int,
    log_dirs_throttle: int,
    timeout_ms: int,
    may_change_replication_factor: bool,
) -> None:
    """Begin a reassignment, after everything that it names was looked at.

    Args:
        admin: where.
        assignments: what to move.
        source: the name of the file that says so.
        additional: whether other partitions may be moving already.
        throttle: bytes per second of each broker that takes part, below 0 for no change.
        log_dirs_throttle: likewise between the directories of one broker.
        timeout_ms: how long moves between directories may take to begin.
        may_change_replication_factor: whether a partition may get another number of replicas.

    Raises:
        OperatorError: something is wrong with an entry, or the cluster refuses one.
    """
    check_executable(assignments, source)
    moving = admin.reassignments()
    if moving and not additional:
        raise OperatorError(EXISTING, f"Active reassignments: {joined(sorted(moving))}.")
    check_brokers(admin, assignments, source)
    current = find_partitions(admin, assignments, source)
    proposed = {each.partition: each.replicas for each in assignments}
    print_line("Current partition replica assignment")
    print_line("")
    print_line(write_reassignment(current, find_log_dirs(admin, current)))
    print_line("")
    print_line("Save this to use as the --reassignment-json-file option during rollback")
    chosen = chosen_log_dirs(assignments)
    if throttle >= 0 or log_dirs_throttle >= 0:
        print_line(MUST_VERIFY)
    if throttle >= 0:
        copying = copying_with(copying_now(moving), current, proposed)
        _change(admin, {ConfigTarget(topic=topic): lists for topic, lists in throttled_replicas(copying).items()})
        rates = dict.fromkeys((LEADER_THROTTLED_RATE, FOLLOWER_THROTTLED_RATE), str(throttle))
        _change(admin, {ConfigTarget(broker=str(broker)): rates for broker in brokers_of(copying)})
        print_line(f"The inter-broker throttle limit was set to {throttle} B/s")
    if log_dirs_throttle >= 0:
        brokers = {replica.broker for replica in chosen}
        rate = {LOG_DIRS_THROTTLED_RATE: str(log_dirs_throttle)}
        _change(admin, {ConfigTarget(broker=str(broker)): rate for broker in brokers})
        print_line(f"The replica-alter-dir throttle limit was set to {log_dirs_throttle} B/s")
    refused = admin.reassign(proposed, may_change_replication_factor=may_change_replication_factor)
    if refused:
        reasons = "\n".join(f"{partition}: {refused[partition]}" for partition in sorted(refused))
        raise OperatorError(f"Error reassigning partition(s):\n{reasons}", "The other partitions are moving.")
    partitions = sorted(proposed)
    print_line(f"Successfully started {plural('partition reassignment', partitions)} for {joined(partitions)}")
    if chosen:
        _move_replicas(admin, chosen, timeout_ms)


def cancel_reassignment(
    admin: ReassignmentAdmin, assignments: Sequence[Assignment], *, preserve_throttles: bool, timeout_ms: int
) -> None:
    """Cancel what goes on of a reassignment, and take all throttles away unless they are to stay.

    Raises:
        OperatorError: the cluster refuses.
    """
    moving = admin.reassignments()
    active = sorted({each.partition for each in assignments} & set(moving))
    if active:
        refused = admin.reassign(dict.fromkeys(active))
        if refused:
            reasons = "\n".join(f"{partition}: {refused[partition]}" for partition in sorted(refused))
            raise OperatorError(
                f"Error cancelling {plural('partition reassignment', list(refused))} for:\n{reasons}",
                "See the active reassignments: esp reassign-partitions --list",
            )
        print_line(f"Successfully cancelled {plural('partition reassignment', active)} for: {joined(active)}")
    else:
        print_line("None of the specified partition reassignments are active.")
    chosen = chosen_log_dirs(assignments)
    moves = directory_moves(chosen, admin.log_dirs({replica.broker for replica in chosen}) if chosen else {})
    back = {move.replica: move.current for move in moves if move.is_active and move.current is not None}
    if back:
        _move_replicas(admin, back, timeout_ms)
    else:
        print_line("None of the specified partition moves are active.")
    if not preserve_throttles:
        clear_throttles(admin, assignments)


def _change(admin: ReassignmentAdmin, changes: Mapping[ConfigTarget, Mapping[str, str | None]]) -> None:
    for target, reason in admin.change_settings(changes).items():
        raise OperatorError(f"the throttle of {target} could not be set: {reason}", "Nothing is moving yet.")


def _move_replicas(admin: ReassignmentAdmin, directories: Mapping[Replica, str], timeout_ms: int) -> None:
    """Move replicas to directories of their brokers, which may have to hear of the replicas first.

    Raises:
        OperatorError: some could not be begun in time.
    """
    deadline_s = time.monotonic() + timeout_ms / 1000
    left = dict(directories)
    while left:
        refused = admin.move_replicas(left)
        for replica in in_order(set(left) - set(refused)):
            print_line(
                f"Successfully started moving log directory to {left[replica]} for replica {replica.partition} with broker "
                f"{replica.broker} "
            )
        left = {replica: left[replica] for replica in refused}
        if left and time.monotonic() >= deadline_s:
            names = joined(in_order(left))
            reasons = joined(sorted(set(refused.values())))
            raise OperatorError(
                f"Timed out before {plural('log directory move', list(left))} could be started for: {names} ({reasons})",
                "Give absolute paths of log.dirs of the broker, or a longer --timeout.",
            )
        if left:
            time.sleep(_RETRY_BACKOFF_S)
