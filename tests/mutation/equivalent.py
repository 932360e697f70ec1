"""Mutations that survive, each with the reason why nobody can notice it, or nobody need."""

from collections.abc import Mapping
from typing import Final

from tests.mutation.operators import WAIT

Key = tuple[str, str, str, str, str]
"""Path, function, operator, what stands there, and what replaces it (:attr:`tests.mutation.operators.Mutation.key`)."""


def _await_before(path: str, function: str, statement: str) -> Key:
    return path, function, "await between", statement, f"{WAIT}; {statement}"


EQUIVALENT: Final[Mapping[Key, str]] = {
    (
        "esp/broker/replication/session.py",
        "ReplicaSession._read_and_reply",
        "operand left out",
        "item.share is not None and item.share.reserved",
        "(item.share is not None)",
    ): "a partition that waits for the device was allowed bytes: if it has a share, these are reserved until the read settles it",
    _await_before(
        "esp/broker/replication/replica_files.py",
        "ReplicaFiles._aside",
        "await self._env.cpu.run(work_blocking, directory, former_logs)",
    ): "the logs of a second directory wait for those of the first anyway: what may come between the look and their turn comes there",
    (
        "esp/storage/log_reader.py",
        "LogReader._hand_out",
        "branch never taken",
        "len(sound) == cut",
        "((len(sound) == cut) and False)",
    ): "a place that is not remembered is found by the index: the next read takes longer, and gives the same",
    (
        "esp/controller/replay.py",
        "MetadataReplay._replay_remove_topic",
        "operand left out",
        "record.topic_id or ZERO_UUID",
        "(record.topic_id)",
    ): "no topic has the id zero, which is read as None: the record is refused either way",
    (
        "esp/broker/raft/wire/metadata_partition.py",
        "_endpoints_of",
        "branch never taken",
        "leader_id == NO_NODE",
        "((leader_id == NO_NODE) and False)",
    ): "no endpoint in an answer is that of the node -1: the search finds none",
    (
        "esp/storage/transaction_proof.py",
        "TransactionProof.conclude",
        "branch never taken",
        "segment.oldest_open_offset is None",
        "((segment.oldest_open_offset is None) and False)",
    ): "a search that does not know it looks into later segments too, and finds nothing more there",
    _await_before(
        "esp/broker/apis/delete_records.py", "_settle", "started_us = services.env.clock.monotonic_us()"
    ): "what is looked at before is compared with what is there after the log starts were written, which takes turns of the loop anyway",
    _await_before(
        "esp/broker/replication/cleaner.py", "LogCleaner._replace", "cleaning.note_dropped(output)"
    ): "the round, which alone reads what is noted, goes on only when this is over; both locks are held meanwhile",
    (
        "esp/controller/partitions.py",
        "_add",
        "bound shifted",
        "additional < 0",
        "(additional < (0) + 1)",
    ): "an addition of no partition was refused just before",
    _await_before(
        "esp/broker/replication/cleaner.py",
        "LogCleaner._conclude",
        "directory = self._replicas.directories.holding(hosted.log)",
    ): "the lock of the directories is held meanwhile: no replica changes its directory",
    (
        "esp/replication/partition_follower.py",
        "PartitionFollower.must_begin_below",
        "operand left out",
        (
            "bool(answer.records)\n            and must_begin_below(self.log, answer.records, self.leader_epoch)"
            "\n            and self._is_current(asked)"
        ),
        "((must_begin_below(self.log, answer.records, self.leader_epoch)) and (self._is_current(asked)))",
    ): "no records are fewer bytes than a header, which gives the same a call later",
    _await_before(
        "esp/broker/replication/host.py", "ReplicaHost._remove", "self._assignments.withdraw(hosted)"
    ): "the replica is found no more, so that nothing is told of it again; a report of it might have been on its way already, and the "
    "controller passes over the place of one that left",
    (
        "esp/storage/recovery.py",
        "_Loader.open_segments",
        "comparison turned",
        "self.end_offset > self.log_start_offset",
        "(self.end_offset >= self.log_start_offset)",
    ): "a log without records has no batch from which epochs could be rebuilt: the search for them finds none",
    (
        "esp/storage/recovery.py",
        "_Loader.open_segments",
        "operand left out",
        "self.end_offset > self.log_start_offset and not is_known",
        "(not is_known)",
    ): "as above: the log start is not beyond the end here",
    _await_before(
        "esp/broker/apis/create_topics.py",
        "handle",
        "created = [topic for topic in answer.topics if topic.error_code is ErrorCode.none]",
    ): "the answer of the controller does not change any more, and the metadata is waited for next",
    _await_before(
        "esp/broker/replication/log_dir_moves.py", "LogDirMoves.request", "directories = self._host.directories"
    ): "a node has the same directories as long as it runs; which are online is looked at under the lock, which is waited for next",
    _await_before(
        "esp/broker/replication/host.py", "ReplicaHost.make_missing", "topics = self.image.topics_by_id"
    ): "the lock of the directories is held, under which alone other metadata comes and replicas are left unmade",
    (
        "esp/broker/raft/files.py",
        "RaftFiles._flush",
        "comparison turned",
        "log.recovery_point < end_offset",
        "(log.recovery_point <= end_offset)",
    ): "a log that is flushed up to its end has nothing to flush",
    _await_before(
        "esp/broker/controller/registrar.py",
        "ControllerRegistrar._register",
        "answer = await self._channel.call(ApiKey.CONTROLLER_REGISTRATION, request, timeout_ms=ATTEMPT_MS)",
    ): "a call to another node takes turns of the loop in any case, and nothing is looked at between the request and it",
    _await_before(
        "esp/broker/raft/files.py",
        "RaftFiles.read_snapshot",
        "return replace(response, error=ErrorCode.snapshot_not_found)",
    ): "the refusal is the same a turn of the loop later, and nothing is looked at after it",
    _await_before(
        "esp/broker/apis/delete_records.py",
        "_settle",
        "spent_ms = (services.env.clock.monotonic_us() - started_us) // 1000",
    ): "the time that is left is counted from a turn of the loop later on, which is part of the time spent",
    (
        "esp/broker/apis/broker_heartbeat.py",
        "handle_at_controller",
        "operand left out",
        "directory or ZERO_UUID",
        "(directory)",
    ): "no broker has a directory of the id zero, which is read as None: neither is found among its directories",
    _await_before(
        "esp/broker/replication/roles.py", "ReplicaRoles._lead", "leader = hosted.leader"
    ): "metadata is applied in turn, under the lock of the directories: what comes in a turn of the loop might as well have come before it",
    _await_before(
        "esp/broker/replication/maintenance.py",
        "Maintenance.delete_old_segments",
        "await delete_old_segments(self._env, self._replicas, self._holds)",
    ): "a round of retention begins a turn of the loop later, minutes after the one before",
    (
        "esp/broker/data_path/produce_appender.py",
        "ProduceAppender._require_permission",
        "branch never taken",
        "self.access.is_open",
        "((self.access.is_open) and False)",
    ): "without an authorizer nothing is refused, which is found a call later",
    _await_before(
        "esp/broker/apis/find_coordinator.py", "_ask_and_answer", "await create_missing_topics(services, (topic,))"
    ): "the request for a topic goes to the controller, and everything is looked at anew when it is answered",
    (
        "esp/groups/joining.py",
        "Joining._add",
        "operand left out",
        "group.state is GroupState.PREPARING_REBALANCE and group.previous_state is GroupState.EMPTY",
        "(group.state is GroupState.PREPARING_REBALANCE)",
    ): "the mark is read at the end of the delays of a group that was empty, the first of which begins by taking it away",
    _await_before(
        "esp/broker/cluster_view/broker_liveness.py", "BrokerLiveness._ask", "self._find(node_id)"
    ): "the answer may have waited for its turn of the loop as long: what another question learned meanwhile is forgotten either way, and "
    "learned again by the broker's next silence",
    _await_before(
        "esp/broker/replication/host.py", "ReplicaHost._change_replicas", "await self._rotten.care()"
    ): "the lock of the directories is held, and replicas that have rotted are waited for next",
    _await_before(
        "esp/broker/apis/find_coordinator.py", "_ask_and_answer", "return _answer(services, request, message, keys)"
    ): "the answer is made of the metadata of the moment in which it is made, after a wait for other nodes",
    _await_before(
        "esp/broker/apis/fetch.py",
        "handle_at_controller",
        "answer = await services.raft.request(fetching.decode_fetch_request(message), messages.FetchResponse)",
    ): "a member of the quorum sends its next request when this one is answered; a request is checked when it is handed over",
    (
        "esp/broker/replication/fetcher.py",
        "ReplicaFetcher.close",
        "branch never taken",
        "timer is not None",
        "((timer is not None) and False)",
    ): "a timer that comes after the end finds that the fetcher is closed",
    (
        "esp/broker/transactions/verifier.py",
        "TransactionVerifier.verifying",
        "comparison turned",
        "self._clock.monotonic_us() < give_up_us",
        "(self._clock.monotonic_us() <= give_up_us)",
    ): "at the very moment at which the time is up one question more is asked, or none",
    (
        "esp/transactions/time_limits.py",
        "TimeLimits._abort_late",
        "operand left out",
        "entry.pending is not None or current is None or current.status is not TransactionStatus.ONGOING",
        "((entry.pending is not None) or (current.status is not TransactionStatus.ONGOING))",
    ): "an id without a committed state has a move on its way, or is removed when that fails",
    _await_before(
        "esp/broker/raft/files.py",
        "RaftFiles._flush",
        'self.fail(OSError(errno.ENOSPC, f"flushed up to {log.recovery_point} of {end_offset}"))',
    ): "the process ends a turn of the loop later; until then nothing says that more was flushed",
    _await_before(
        "esp/broker/apis/delete_topics.py", "handle_at_controller", "wanted.append(TopicId(topic.topic_id))"
    ): "the request that is looked at does not change, and the decision is made when all of it was looked at",
}
"""The reason of each."""
