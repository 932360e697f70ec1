"""The state that a member of the quorum finds on its disk when it starts, checked against its node's settings."""

import logging
from collections.abc import Iterable
from typing import Final, NamedTuple

from esp.broker.raft.config import RaftConfig, quorum_settings
from esp.broker.raft.metadata_log import LOST_VOTER_REMEDY, read_batches, read_quorum_state
from esp.broker.raft.snapshots import MetadataSnapshots
from esp.model.errors import CorruptionError, OperatorError
from esp.model.ids import ZERO_UUID, DirectoryId, uuid_to_base64
from esp.ports.env import Env
from esp.raft.log_outline import LogOutline
from esp.raft.member import Member
from esp.raft.node import RaftNode
from esp.raft.quorum_state import FILE_NAME
from esp.raft.snapshot import FIRST, SnapshotContents, SnapshotId, read_snapshot
from esp.raft.voter_history import VoterHistory
from esp.raft.voters import Voter, VoterEndpoint, VoterKey, VoterSet
from esp.storage.log import Log

_logger = logging.getLogger(__name__)

OTHER_DISK_REMEDY: Final = (
    "give it back the data directory with which it voted, or remove the old voter (kafka-metadata-quorum remove-controller) and add this "
    "node as a new one (add-controller)"
)
"""The remedy for a voter whose disk was replaced, and for a node that has another one's id."""


class InitialSnapshot(NamedTuple):
    """The snapshot that the state begins with."""

    snapshot_id: SnapshotId
    contents: SnapshotContents


class RecoveredMember(NamedTuple):
    """A member that has not taken part yet."""

    node: RaftNode
    voters: VoterHistory
    snapshots: MetadataSnapshots
    initial: InitialSnapshot | None
    """None: the state begins with the log."""


async def read_member(env: Env, log: Log, config: RaftConfig) -> RecoveredMember:
    """Make the core of what is on the disk.

    Raises:
        OperatorError: a file is missing or broken, or the node cannot be a member of this quorum.
    """
    try:
        snapshots = MetadataSnapshots(env.disk, log.path)
        initial = await _read_initial(env, log, snapshots)
        if config.can_vote:
            _require_committed(log)
        start_epoch = _begin_at_snapshot(log, snapshots)
        voters = _first_voters(config, initial)
        async for header, batch in read_batches(log, log.log_start_offset, log.log_end_offset):
            voters.replay(batch, header)
    except CorruptionError as error:
        remedy = LOST_VOTER_REMEDY if config.can_vote else "Move the directory away: the node fetches the log again."
        raise OperatorError(f"The metadata log {log.path} is corrupt: {error}.", remedy) from error
    except OSError as error:
        raise OperatorError(
            f"The metadata log {log.path} cannot be opened: {error}.",
            "Repair the disk, or make room on it, and start the node again.",
        ) from error
    _check_identity(config, voters, log.path)
    quorum_state = read_quorum_state(env.disk, log.path)
    if quorum_state is None and config.can_vote:
        _require_no_vote(config.local, voters, log)
    latest = snapshots.latest
    outline = LogOutline(
        start_offset=log.log_start_offset,
        start_epoch=start_epoch,
        end_offset=log.log_end_offset,
        flushed_offset=log.recovery_point,
        epochs=log.leader_epochs.entries(),
        snapshot_id=None if latest == FIRST else latest,
    )
    node = RaftNode(
        Member(
            config.local,
            cluster_id=config.cluster_id,
            has_controller_role=config.can_vote,
            endpoints=config.endpoints,
            listener_name=config.listener,
            voters=voters,
            bootstrap=config.bootstrap_servers,
            quorum_state=quorum_state,
            log=outline,
            settings=quorum_settings(config.settings),
            random=env.random,
            committed_offset=log.checkpointed_high_watermark if config.can_vote else 0,
        )
    )
    return RecoveredMember(node, voters, snapshots, initial)


async def _read_initial(env: Env, log: Log, snapshots: MetadataSnapshots) -> InitialSnapshot | None:
    """The newest snapshot, with the log brought to where it goes on from it.

    A crash may have come between the snapshot's name and the cutting of the log (RAFT-32); the snapshot counts then (REC-10).
    """
    snapshot_id = snapshots.latest
    if snapshot_id is None:
        if log.log_start_offset > 0:
            raise CorruptionError(f"it begins at offset {log.log_start_offset}, and there is no snapshot")
        return None
    if snapshot_id.end_offset < log.log_start_offset:
        raise CorruptionError(
            f"it begins at offset {log.log_start_offset}, and the newest snapshot is {snapshot_id.file_name}"
        )
    contents = read_snapshot(await env.cpu.run(snapshots.read, snapshot_id))
    end_offset = snapshot_id.end_offset
    is_log_other = (
        log.log_start_offset < end_offset <= log.log_end_offset
        and log.leader_epochs.epoch_of(end_offset - 1) != snapshot_id.epoch
    )
    if end_offset > log.log_end_offset or is_log_other:
        _logger.warning("%s goes on, empty, from the snapshot %s", log.path, snapshot_id.file_name)
        log.truncate_fully_and_start_at(end_offset)
    return InitialSnapshot(snapshot_id, contents)


def _require_committed(log: Log) -> None:
    """Check that recovery did not cut records that this node knew to be committed: it would vote for members without them (REC-4, RAFT-3).

    For voters only: a member that never votes need not flush before it fetches (RAFT-11), and fetches again what a loss of power took.
    """
    if log.log_end_offset < log.checkpointed_high_watermark:
        raise CorruptionError(
            f"it ends at offset {log.log_end_offset}, and {log.checkpointed_high_watermark} was committed and on this disk"
        )


def _require_no_vote(local: VoterKey, voters: VoterHistory, log: Log) -> None:
    """Check that a node without ``quorum-state`` has never had one: it would give its vote in an epoch a second time (RAFT-1, RAFT-2).

    The file is written before the first batch. A quorum of one has no other candidate to vote for, and its log knows the epoch.

    Raises:
        OperatorError: it had one.
    """
    is_alone = len(voters.voters.voters) == 1 and voters.voters.find(local) is not None
    if log.log_end_offset > 0 and not is_alone:
        raise OperatorError(
            f"{log.path} has records and no {FILE_NAME}: the votes of this node are not known any more.",
            f"Put the file back as this node left it, if you can. {LOST_VOTER_REMEDY}",
        )


def _begin_at_snapshot(log: Log, snapshots: MetadataSnapshots) -> int:
    """Let the log begin with its first record or where a snapshot ends (RAFT-31); return the epoch of the record before that, 0 for none.

    A log start that was raised, and stood in no checkpoint when the power failed, is raised again.
    """
    if snapshots.latest is not None:
        log.high_watermark = max(log.high_watermark, snapshots.latest.end_offset)
    if log.log_start_offset == 0:
        return 0
    first = next(known for known in snapshots.ids if known.end_offset >= log.log_start_offset)
    log.raise_log_start(first.end_offset)
    return first.epoch


def _first_voters(config: RaftConfig, initial: InitialSnapshot | None) -> VoterHistory:
    """The voters before the first record of the log."""
    if initial is not None and initial.contents.voters is not None:
        return VoterHistory(initial.contents.voters, initial.contents.kraft_version)
    voters = [
        Voter(
            VoterKey(node_id, DirectoryId(ZERO_UUID)),
            (VoterEndpoint(config.listener, address.host, address.port),),
        )
        for node_id, address in sorted(config.static_voters.items())
    ]
    return VoterHistory(VoterSet(tuple(voters)), 0)


def _check_identity(config: RaftConfig, voters: VoterHistory, path: str) -> None:
    """Check that the node, with this disk, has a place in the quorum."""
    local = config.local
    same_id = [voter.key for voter in voters.voters.voters if voter.key.node_id == local.node_id]
    if same_id and not config.can_vote:
        raise OperatorError(
            f"Node {local.node_id} is a voter of the metadata quorum, but does not have the role controller.",
            "Set process.roles to broker,controller, or remove the voter from the quorum first (kafka-metadata-quorum remove-controller).",
        )
    if not voters.voters.voters and not config.bootstrap_servers:
        raise OperatorError(
            f"{path} names no voters of the metadata quorum, and the settings name no controllers.",
            "Set controller.quorum.bootstrap.servers (or controller.quorum.voters), or restore the file "
            f"{FIRST.file_name} of this directory from a copy.",
        )
    problem = find_other_disk(local, path, voters.voters, voters.kraft_version)
    if problem is not None and len(voters.voters.voters) == 1:
        raise OperatorError(
            f"{problem}.", "Give the node the data directory that it had, with its own meta.properties."
        )


def find_other_disk(local: VoterKey, path: str, voters: VoterSet, kraft_version: int) -> str | None:
    """The problem if a node of this id votes, but with another disk (RAFT-45); None if there is none."""
    same_id = [voter.key for voter in voters.voters if voter.key.node_id == local.node_id]
    if kraft_version == 0 or not same_id or local in same_id:
        return None
    return f"{path} is the metadata log of the voters {_describe(voters.keys())}, but this is {_describe({local})}"


def _describe(keys: Iterable[VoterKey]) -> str:
    return ", ".join(f"{key.node_id} (directory.id {uuid_to_base64(key.directory_id)})" for key in sorted(keys))
