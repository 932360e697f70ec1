"""A coordinator of share groups with its clients, its log, and share coordinators that answer at once, late, or with errors."""

from dataclasses import replace

from esp.groups.settings import ShareGroupSettings
from esp.groups.share.effects import DeleteShareStates, InitialiseShareStates
from esp.groups.share.requests import (
    AlteredOffset,
    AlterShareGroupOffsets,
    DeleteShareGroupOffsets,
    DescribeShareGroupOffsets,
    ShareGroupHeartbeat,
    ShareStateResult,
)
from esp.model.errors import ErrorCode
from esp.model.ids import TopicPartition
from esp.schemas.share_group_record_codec import decode_share_group_record
from tests.unit.groups.world import GROUP, World

INTERVAL_MS = 1_000
SESSION_MS = 45_000


class ShareStates:
    """The states that share coordinators have: by group and partition the state epoch, the start offset, and the epochs of all before."""

    def __init__(self):
        self.states = {}
        self.made = {}
        self.log = []

    def do(self, effect):
        """Do what is asked, and return the answers."""
        return {one: self._do(effect, one, index) for index, one in enumerate(_partitions(effect))}

    def _do(self, effect, partition, index):
        key = effect.group_id, partition
        known = self.states.get(key)
        if isinstance(effect, InitialiseShareStates):
            if known is not None and effect.state_epoch < known[0]:
                return ShareStateResult(ErrorCode.fenced_state_epoch)
            self.states[key] = effect.state_epoch, effect.starts[index].offset
            self.made.setdefault(key, []).append(effect.state_epoch)
            self.log.append((partition, *self.states[key]))
            return ShareStateResult()
        if isinstance(effect, DeleteShareStates):
            self.states.pop(key, None)
            return ShareStateResult()
        return ShareStateResult(ErrorCode.invalid_request) if known is None else ShareStateResult(start_offset=known[1])

    def start(self, partition, group=GROUP):
        """The start offset of a partition, None without a state."""
        found = self.states.get((group, partition))
        return None if found is None else found[1]


def _partitions(effect):
    if isinstance(effect, InitialiseShareStates):
        return [start.partition for start in effect.starts]
    return effect.partitions


class ShareWorld(World):
    """One coordinator. With ``is_deaf`` the questions to share coordinators wait in ``questions``."""

    def __init__(self, *, states=None, share=None, is_deaf=False, **settings):
        self.states = states or ShareStates()
        self.is_deaf = is_deaf
        self.questions = {}
        super().__init__(share=share or ShareGroupSettings(), offers_share_groups=True, **settings)

    def successor(self, **settings):
        return ShareWorld(log=self.log, topics=self.topics, states=self.states, **settings)

    def ask_share_coordinators(self, effect):
        self.questions[effect.token] = effect

    def do(self, effects):
        super().do(effects)
        if not self.is_deaf:
            self.answer()

    def answer(self, error=None):
        """Let share coordinators answer what is asked, or refuse it with an error; with ``silent`` they never hear of it."""
        while self.questions:
            token = min(self.questions)
            effect = self.questions.pop(token)
            refused = {one: ShareStateResult(error) for one in _partitions(effect)}
            results = self.states.do(effect) if error is None else refused
            self.do(self.coordinator.shares.on_states_answered(token, results, self.now))
            if error is not None:
                break

    def answer_one(self, token):
        """Let share coordinators answer one of the questions."""
        effect = self.questions.pop(token)
        self.do(self.coordinator.shares.on_states_answered(token, self.states.do(effect), self.now))

    def lose(self):
        """All questions are lost: the driver gives up."""
        questions, self.questions = self.questions, {}
        for token in questions:
            self.do(self.coordinator.shares.on_states_answered(token, {}, self.now))

    def share(self, member_id, epoch=0, *, group=GROUP, topics=None, **more):
        """A heartbeat, and its answer: error, or epoch and the assigned partitions by topic, None if they are not told."""
        topics = ("t",) if topics is None and epoch == 0 else topics
        request = ShareGroupHeartbeat(
            group_id=group,
            member_id=member_id,
            member_epoch=epoch,
            topic_names=topics,
            client_id=f"client of {member_id}",
            client_host="/127.0.0.1",
            **more,
        )
        shares = self.coordinator.shares
        return self.ask_at_rest(shares.beat_at_rest, shares.heartbeat, request)

    def beat(self, member_id, epoch=0, **more):
        """A heartbeat, and its answer: the error, or the epoch and the numbers of the assigned partitions, None if they are not told."""
        answer = self.answers[self.share(member_id, epoch, **more)]
        if answer.error is not ErrorCode.none:
            return answer.error
        assigned = answer.assignment
        return answer.member_epoch, None if assigned is None else sorted(one.partition for one in assigned)

    def described(self, group=GROUP):
        return self.coordinator.shares.describe(group)

    def alter(self, offsets, *, group=GROUP, end_offset=None):
        altered = tuple(
            AlteredOffset(TopicPartition(*partition), offset, end_offset) for partition, offset in offsets.items()
        )
        return self.ask(self.coordinator.shares.alter_offsets, AlterShareGroupOffsets(group_id=group, offsets=altered))

    def delete_share_offsets(self, *topics, group=GROUP):
        return self.ask(self.coordinator.shares.delete_offsets, DeleteShareGroupOffsets(group_id=group, topics=topics))

    def describe_offsets(self, *partitions, group=GROUP):
        wanted = tuple(TopicPartition(*partition) for partition in partitions) or None
        return self.ask(
            self.coordinator.shares.describe_offsets, DescribeShareGroupOffsets(group_id=group, partitions=wanted)
        )

    def delete_topic(self, name):
        topic_id = self.topics.find(name).topic.topic_id
        self.topics.delete(name)
        self.do(self.coordinator.shares.on_topics_deleted([topic_id], self.now))

    def types_since(self, place):
        """The types of records since a place in the log; negative for tombstones."""
        records = (decode_share_group_record(record.key, record.value) for record in self.log[place:])
        return [int(record.key.type) * (-1 if record.value is None else 1) for record in records]

    def with_share(self, **settings):
        """The same settings of share groups, but for these."""
        return replace(self.settings.share, **settings)

    def assigned(self):
        """A group of one member, ``a``, that has all partitions of ``t``: its epoch is 3."""
        assert self.beat("a") == (2, [])
        self.sleep(INTERVAL_MS)
        every = sorted(one.partition for one in self.topics.partitions("t"))
        assert self.beat("a", 2) == (3, every)
