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
        "esp/broker/replication/host.py",
        "ReplicaFiles.put_aside",
        "await self._env.cpu.run(directory.schedule_delete_blocking, former_logs, self._env.clock.wall_ms())",
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
        "_address_of",
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
    ): "the replica is found no more, so that nothing is told of it again; the controller passes over the place of one that left",
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
        "created = [\n            TopicId(topic.topic_id)\n            for topic in answer.topics\n            "
        "if topic.error_code is ErrorCode.none and topic.topic_id is not None\n        ]",
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
        "esp/broker/data_path/long_produce.py", "LongProduce._run", "awaited = appending.send(guards)"
    ): "what has come meanwhile is found at the append, which compares the guards once more (TXN-4)",
}
"""The reason of each."""
