"""Verbs of a consumer group: clients and their coordinator (:mod:`esp.groups`), whose records are committed at once."""

import uuid
from itertools import count
from random import Random
from typing import Final

from esp.broker.groups.config import coordinator_settings
from esp.groups.coordinator import GroupCoordinator
from esp.groups.effects import Answer, Append, Effect
from esp.groups.requests import (
    NO_GENERATION,
    CommittedOffset,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    LeavingMember,
    OffsetCommit,
    OffsetFetch,
    Protocol,
    SyncGroup,
)
from esp.groups.responses import JoinResult, LeaveResult, OffsetCommitResult, Result, SyncResult
from esp.model.errors import ErrorCode
from esp.model.ids import TopicPartition
from esp.model.now import Now
from esp.records.builder import NewRecord
from esp.schemas.group_record_codec import decode_group_record
from esp.schemas.group_records import OffsetCommitRecord
from esp.settings.broker import BrokerSettings
from esp.simulation.machine.env import SeededRandom
from tests.scenarios.script import Stage, verb
from tests.unit.groups.world import GROUP, START_MS, Topics, subscription

_APIS: Final = {
    JoinResult: "JoinGroup",
    SyncResult: "SyncGroup",
    LeaveResult: "LeaveGroup",
    OffsetCommitResult: "OffsetCommit",
}


class Client:
    """A consumer: what it was told last."""

    def __init__(self, name: str, instance: str | None) -> None:
        self.name = name
        self.instance = instance
        self.member_id = ""
        self.generation = NO_GENERATION


class GroupStage(Stage):
    """A coordinator and clients of one group.

    A member id is a prefix, the client's id or the instance's, and a random part, for which a number stands here: A/1.
    """

    def __init__(self) -> None:
        super().__init__()
        self._now_us = 1_000_000
        self._clients: dict[str, Client] = {}
        self._asked: dict[int, Client] = {}
        self._tickets = count(1)
        self._names: dict[str, str] = {"": "-"}
        self._coordinator = GroupCoordinator(coordinator_settings(BrokerSettings()), SeededRandom(Random(0)), Topics())
        self._do(self._coordinator.begin(self._now))

    @property
    def _now(self) -> Now:
        return Now(self._now_us, START_MS + self._now_us // 1000)

    # Verbs

    @verb
    def client(self, name: str, *, instance: str = "") -> None:
        """Start a consumer, with a ``group.instance.id`` if it is a static member."""
        self._clients[name] = Client(name, instance or None)

    @verb
    def join(self, name: str) -> None:
        """Let a consumer join, with the member id that it was told if it was told one."""
        client = self._clients[name]
        self.say(f"{name} -> JoinGroup member={self._name(client.member_id)}{_instance(client)}")
        request = JoinGroup(
            group_id=GROUP,
            member_id=client.member_id,
            group_instance_id=client.instance,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=60_000,
            protocol_type="consumer",
            protocols=(Protocol("range", subscription("t")),),
            client_id=name,
            client_host="/127.0.0.1",
            requires_known_member_id=True,
        )
        self._do(self._coordinator.join(request, self._ticket(client), self._now))

    @verb
    def sync(self, name: str, *, shares: str = "") -> None:
        """Let a consumer ask for its share; the leader brings the shares of all members, as ``A:t-0,B:t-1``."""
        client = self._clients[name]
        assigned = dict(share.split(":") for share in shares.split(",")) if shares else {}
        self.say(f"{name} -> SyncGroup member={self._name(client.member_id)} generation={client.generation}")
        request = SyncGroup(
            group_id=GROUP,
            member_id=client.member_id,
            generation_id=client.generation,
            group_instance_id=client.instance,
            assignments={self._clients[other].member_id: share.encode() for other, share in assigned.items()},
        )
        self._do(self._coordinator.sync(request, self._ticket(client), self._now))

    @verb
    def heartbeat(self, name: str) -> None:
        """Let a consumer say that it is alive."""
        client = self._clients[name]
        request = Heartbeat(
            group_id=GROUP,
            member_id=client.member_id,
            generation_id=client.generation,
            group_instance_id=client.instance,
        )
        error = self._coordinator.heartbeat(request, self._now)
        member = f"member={self._name(client.member_id)} generation={client.generation}"
        self.say(f"{name} -> Heartbeat {member}{_instance(client)}")
        self.say(f"{name} <- Heartbeat {error.name.upper()}")

    @verb
    def leave(self, name: str) -> None:
        """Let a consumer leave."""
        client = self._clients[name]
        self.say(f"{name} -> LeaveGroup member={self._name(client.member_id)}")
        leaving = (LeavingMember(client.member_id, client.instance),)
        self._do(self._coordinator.leave(LeaveGroup(group_id=GROUP, members=leaving), self._ticket(client), self._now))

    @verb
    def commit(self, name: str, partition: str, offset: int, *, generation: str = "") -> None:
        """Let a consumer commit an offset; in its generation, if no other is given."""
        client = self._clients[name]
        generation_id = int(generation) if generation else client.generation
        member = f"member={self._name(client.member_id)} generation={generation_id}"
        self.say(f"{name} -> OffsetCommit {member}{_instance(client)} {partition}={offset}")
        topic, _, number = partition.rpartition("-")
        request = OffsetCommit(
            group_id=GROUP,
            generation_id=generation_id,
            member_id=client.member_id,
            group_instance_id=client.instance,
            offsets=(CommittedOffset(TopicPartition(topic, int(number)), offset),),
        )
        self._do(self._coordinator.commit_offsets(request, self._ticket(client), self._now))

    @verb
    def sleep(self, s: int) -> None:
        """Let time pass."""
        end_us = self._now_us + s * 1_000_000
        while (due_us := self._coordinator.next_deadline_us) is not None and due_us <= end_us:
            self._now_us = max(self._now_us, due_us)
            self._do(self._coordinator.on_time(self._now))
        self._now_us = end_us

    @verb
    def status(self) -> None:
        """Say what DescribeGroups and OffsetFetch tell."""
        described = self._coordinator.describe_group(GROUP)
        self.say(f"group {described.state}")
        for member in described.members:
            instance = f" instance={member.group_instance_id}" if member.group_instance_id else ""
            self.say(f"  member {self._name(member.member_id)}{instance} has {_share(member.assignment)}")
        for fetched in self._coordinator.fetch_offsets(OffsetFetch(group_id=GROUP, partitions=None)).offsets:
            self.say(f"  offset {fetched.partition.topic}-{fetched.partition.partition}={fetched.offset}")

    # What the coordinator asks for

    def _ticket(self, client: Client) -> int:
        ticket = next(self._tickets)
        self._asked[ticket] = client
        return ticket

    def _do(self, effects: list[Effect]) -> None:
        appended = []
        for effect in effects:
            if isinstance(effect, Append):
                for record in effect.records:
                    self.say(f"  coordinator appends {self._describe_record(record)}")
                appended.append(effect.token)
            else:
                assert isinstance(effect, Answer)
                assert isinstance(effect.ticket, int)
                self._answer(self._asked.pop(effect.ticket), effect.result)
        for token in appended:
            self._do(self._coordinator.on_committed(token, self._now))

    def _answer(self, client: Client, result: Result) -> None:
        words = [f"{client.name} <- {_APIS[type(result)]}"]
        if isinstance(result, OffsetCommitResult):
            (part,) = result.partitions
            words.append(part.error.name.upper())
        elif isinstance(result, LeaveResult):
            error = result.error if result.error is not ErrorCode.none else result.members[0].error
            words.append(error.name.upper())
        else:
            assert isinstance(result, JoinResult | SyncResult)
            words.append(result.error.name.upper())
        if isinstance(result, JoinResult):
            words += self._on_joined(client, result)
        if isinstance(result, SyncResult) and result.error is ErrorCode.none:
            words.append(f"share={_share(result.assignment)}")
        self.say(" ".join(words))

    def _on_joined(self, client: Client, result: JoinResult) -> list[str]:
        if result.error in (ErrorCode.none, ErrorCode.member_id_required):
            client.member_id = result.member_id
        if result.error is not ErrorCode.none:
            return [f"member={self._name(result.member_id)}"]
        client.generation = result.generation_id
        words = [f"member={self._name(result.member_id)} generation={result.generation_id}"]
        words.append(f"leader={self._name(result.leader)}")
        if result.members:
            words.append(f"members={','.join(self._name(member.member_id) for member in result.members)}")
        return words

    def _describe_record(self, record: NewRecord) -> str:
        entity = decode_group_record(record.key, record.value)
        assert entity is not None
        if isinstance(entity, OffsetCommitRecord):
            offset = "deleted" if entity.value is None else str(entity.value.offset)
            return f"OffsetCommit {entity.key.topic}-{entity.key.partition}={offset}"
        value = entity.value
        if value is None:
            return "GroupMetadata deleted"
        members = ",".join(f"{self._name(member.member_id)}:{_share(member.assignment)}" for member in value.members)
        return f"GroupMetadata generation={value.generation} leader={self._name(value.leader or '')} members={members or '-'}"

    def _name(self, member_id: str) -> str:
        if member_id not in self._names:
            prefix = member_id[: -len(str(uuid.UUID(int=0))) - 1]
            used = sum(name.startswith(f"{prefix}/") for name in self._names.values())
            self._names[member_id] = f"{prefix}/{used + 1}"
        return self._names[member_id]


def _instance(client: Client) -> str:
    return f" instance={client.instance}" if client.instance else ""


def _share(assignment: bytes) -> str:
    return assignment.decode() or "-"
