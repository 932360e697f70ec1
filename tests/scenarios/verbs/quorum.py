"""Verbs of the metadata quorum: members of :mod:`esp.raft` whose disks do at once what they are asked for."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from msgspec.structs import replace

from esp.broker.raft.config import quorum_settings
from esp.model.errors import ErrorCode
from esp.model.ids import NO_NODE, NodeId
from esp.model.now import Now
from esp.ports.network import Address
from esp.raft import effects, messages
from esp.raft.effects import Effect
from esp.raft.member import Member
from esp.raft.node import RaftNode
from esp.raft.quorum_state import QuorumState
from esp.raft.voters import VoterSet
from esp.records.batch import iterate_records, read_whole_header
from esp.records.batch_header import BatchHeader
from esp.schemas.control_records import decode_control_record
from esp.settings.broker import BrokerSettings
from esp.simulation.quorum_tier.log import QuorumDisk
from tests.scenarios.script import verb
from tests.scenarios.verbs.courier import Courier, Message, name_of
from tests.unit.raft.members import CLUSTER, LISTENER, endpoints, key, voter_set

_WALL_MS: Final = 1_795_000_000_000
_CLIENT: Final = 99
_APIS: Final = {
    messages.VoteRequest: "Vote",
    messages.BeginQuorumEpochRequest: "BeginQuorumEpoch",
    messages.EndQuorumEpochRequest: "EndQuorumEpoch",
    messages.FetchRequest: "Fetch",
    messages.AddVoterRequest: "AddRaftVoter",
    messages.RemoveVoterRequest: "RemoveRaftVoter",
}


class Chance:
    """What members draw: always the middle. A script says which node comes first, and no seed does."""

    def below(self, limit: int) -> int:
        """The middle of what may be drawn."""
        return limit // 2


@dataclass(slots=True, eq=False)
class Voter:
    """A node with its disk and its monotonic clock. ``node`` is None while its process is not there."""

    number: int
    disk: QuorumDisk
    node: RaftNode | None = None
    life: int = 0
    now_us: int = 0

    @property
    def now(self) -> Now:
        """The time, by this node's clock."""
        return Now(self.now_us, _WALL_MS)


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """A request without an answer yet."""

    sender: int
    receiver: int
    request: messages.Request
    life: int = field(default=0)
    """The number of the life of the sender's process."""


class QuorumStage(Courier):
    """Nodes of a metadata quorum."""

    def __init__(self) -> None:
        super().__init__()
        self._voters = VoterSet(())
        self._members: dict[int, Voter] = {}
        self._calls: list[Call] = []
        self._lost: list[Call] = []
        self._handlers: Mapping[type[Effect], Callable[[Voter, Any], None]] = {
            effects.Persist: self._persist,
            effects.Append: self._append,
            effects.Truncate: self._truncate,
            effects.Commit: self._commit,
            effects.Send: self._send,
            effects.Reply: self._reply,
            effects.Fatal: lambda member, effect: self.say(f"  {name_of(member.number)} ends: {effect.reason}"),
        }

    # Verbs

    @verb
    def voters(self, numbers: tuple[int, ...]) -> None:
        """Start nodes whose empty logs name these voters."""
        self._voters = voter_set(*numbers)
        for number in numbers:
            self._start(number)

    @verb
    def start(self, number: int) -> None:
        """Start a node: an observer that may come to vote, or one that was killed, on the disk that it left."""
        self._start(number)

    @verb
    def kill(self, number: int) -> None:
        """End a node's process. Requests that wait there fail, and new connections are refused."""
        self._members[number].node = None
        for call in [each for each in self._calls if each.receiver == number]:
            self._fail(call, refused=True)

    @verb
    def expire(self, number: int) -> None:
        """Let time pass by one node's clock until the node changes its role or epoch by itself, and say how long that took."""
        member = self._members[number]
        node = _running(member)
        before, began_us = (node.role, node.epoch), member.now_us
        said = self.take()
        for _ in range(1000):
            if (node.role, node.epoch) != before:
                break
            deadline_us = node.next_deadline_us
            assert deadline_us is not None, f"{name_of(number)} waits for nothing"
            member.now_us = max(member.now_us, deadline_us)
            self._do(member, node.on_tick)
        else:
            raise AssertionError(f"{name_of(number)} does not change its role by itself")
        for line in (*said, f"{name_of(number)}: {(member.now_us - began_us) // 1000} ms pass", *self.take()):
            self.say(line)

    @verb
    def elect(self, number: int) -> None:
        """Let a node become leader and tell the others, without a word about how."""
        said = self.take()
        self.expire(number)
        self.deliver()
        self.take()
        for line in said:
            self.say(line)
        node = _running(self._members[number])
        self.say(f"{name_of(number)} is {node.role.value}, epoch={node.epoch}")

    @verb
    def sleep(self, ms: int) -> None:
        """Let time pass for all nodes, which do what is due. What they send waits to be delivered."""
        for _, member in sorted(self._members.items()):
            end_us = member.now_us + ms * 1000
            while member.node is not None and (deadline_us := member.node.next_deadline_us or end_us) < end_us:
                member.now_us = max(member.now_us, deadline_us)
                self._do(member, member.node.on_tick)
            member.now_us = end_us

    @verb
    def propose(self, number: int, values: str) -> None:
        """Let a leader append records, in one batch."""
        member = self._members[number]
        self._do(member, _running(member).propose, [value.encode() for value in values.split(",")])

    @verb
    def add_voter(self, number: int, *, at: int) -> None:
        """Ask a leader to let an observer vote."""
        self._ask(
            at,
            messages.AddVoterRequest(
                cluster_id=CLUSTER, voter=key(number), endpoints=endpoints(number), timeout_ms=5000
            ),
        )

    @verb
    def remove_voter(self, number: int, *, at: int) -> None:
        """Ask a leader to take a voter out of the quorum."""
        self._ask(at, messages.RemoveVoterRequest(cluster_id=CLUSTER, voter=key(number)))

    @verb
    def status(self) -> None:
        """Say where each node stands: role, epoch, log with its epochs, what is committed, the voters."""
        for number, member in sorted(self._members.items()):
            node = member.node
            if node is None:
                self.say(f"{name_of(number)} is not running")
                continue
            leader = "-" if node.leader_id == NO_NODE else name_of(node.leader_id)
            voters = ",".join(str(voter.key.node_id) for voter in node.voters.voters)
            self.say(
                f"{name_of(number)} {node.role.value:11} epoch={node.epoch} leader={leader} log={_describe_log(member.disk)}"
                f" hw={_or_dash(node.high_watermark)} voters={{{voters}}}"
            )

    # What nodes ask for

    def _start(self, number: int) -> None:
        member = self._members.get(number)
        if member is None:
            member = self._members[number] = Voter(number, QuorumDisk(key(number).directory_id, self._voters, 1))
        member.life += 1
        member.node = RaftNode(
            Member(
                key(number),
                cluster_id=CLUSTER,
                has_controller_role=True,
                endpoints=endpoints(number),
                listener_name=LISTENER,
                voters=member.disk.history(),
                bootstrap=[
                    Address(endpoint.host, endpoint.port)
                    for voter in self._voters.voters[:1]
                    for endpoint in voter.endpoints
                ],
                quorum_state=member.disk.quorum_state,
                log=member.disk.outline(),
                settings=quorum_settings(BrokerSettings()),
                random=Chance(),
            )
        )
        self._do(member, member.node.start)

    def _do(self, member: Voter, action: Callable[..., list[Effect]], *arguments: Any, **named: Any) -> None:
        """Call a core, and do what it asks for; a flush is done when all else is."""
        node = _running(member)
        before = (node.role, node.epoch)
        todo = action(member.now, *arguments, **named)
        for effect in todo:
            handler = self._handlers.get(type(effect))
            if handler is not None:
                handler(member, effect)
        if (node.role, node.epoch) != before:
            self.say(f"  {name_of(member.number)} is {node.role.value}, epoch={node.epoch}")
        if any(isinstance(effect, effects.Flush) for effect in todo):
            member.disk.synced_offset = member.disk.end_offset
            self._do(member, node.on_flushed, member.disk.end_offset)

    def _persist(self, member: Voter, effect: effects.Persist) -> None:
        member.disk.quorum_state = effect.state
        self.say(f"  {name_of(member.number)} writes quorum-state {_describe_state(effect.state)}")

    def _append(self, member: Voter, effect: effects.Append) -> None:
        member.disk.append(effect.batch, effect.header)
        self.say(f"  {name_of(member.number)} appends {_describe_batch(bytes(effect.batch), effect.header)}")

    def _truncate(self, member: Voter, effect: effects.Truncate) -> None:
        member.disk.truncate_to(effect.end_offset)
        self.say(f"  {name_of(member.number)} truncates to {effect.end_offset}")

    def _commit(self, member: Voter, effect: effects.Commit) -> None:
        self.say(f"  {name_of(member.number)} commits to {effect.high_watermark}")

    def _ask(self, at: int, request: messages.Request) -> None:
        """A request of an operator, which arrives at once."""
        self.say(f"client -> {name_of(at)} {_describe_request(request)}")
        member = self._members[at]
        self._do(member, _running(member).on_request, request, Call(_CLIENT, at, request))

    def _send(self, member: Voter, effect: effects.Send) -> None:
        receiver = effect.peer.address.port - 9000  # a bootstrap server's id is not known
        call = Call(member.number, receiver, effect.request, member.life)
        self._calls.append(call)
        line = f"{name_of(member.number)} -> {name_of(receiver)} {_describe_request(effect.request)}"
        api = _APIS[type(effect.request)]
        self.post(Message(member.number, receiver, api, line, lambda: self._arrive(call, effect), call))

    def _arrive(self, call: Call, effect: effects.Send) -> None:
        receiver = self._members[call.receiver]
        if receiver.node is None:
            self.say("  connection refused")
            self._fail(call, refused=True)
        else:
            self._do(receiver, receiver.node.on_request, effect.request, (call, effect.peer.node_id))

    def _reply(self, member: Voter, effect: effects.Reply) -> None:
        response = effect.response
        if isinstance(effect.read, effects.ReadRecords):
            assert isinstance(response, messages.FetchResponse)
            response = replace(response, records=member.disk.read(*effect.read))
        if isinstance(effect.token, Call):
            self.say(
                f"  client <- {name_of(member.number)} {_APIS[type(effect.token.request)]} {_describe_response(response)}"
            )
            return
        call, peer_id = effect.token
        api = _APIS[type(call.request)]
        line = f"{name_of(call.sender)} <- {name_of(call.receiver)} {api} {_describe_response(response)}"
        self.post(Message(call.receiver, call.sender, api, line, lambda: self._answer(call, peer_id, response), call))

    def _answer(self, call: Call, peer_id: NodeId, response: messages.Response) -> None:
        sender = self._members[call.sender]
        if call in self._calls:
            self._calls.remove(call)
            if sender.node is not None and sender.life == call.life:
                self._do(sender, sender.node.on_response, peer_id, call.request, response)

    def _fail(self, call: Call, *, refused: bool) -> None:
        if call not in self._calls:
            return
        self._calls.remove(call)
        sender = self._members[call.sender]
        if sender.node is not None and sender.life == call.life:
            self._do(sender, sender.node.on_send_failed, NodeId(call.receiver), call.request, refused=refused)

    def on_lost(self, message: Message) -> None:
        """The sender of the request hears nothing until the network is whole again."""
        assert isinstance(message.about, Call)
        self._lost.append(message.about)

    def on_healed(self) -> None:
        """The requests that were lost, or their answers, have timed out by now."""
        lost, self._lost = self._lost, []
        for call in lost:
            self._fail(call, refused=False)


def _running(member: Voter) -> RaftNode:
    assert member.node is not None, f"{name_of(member.number)} is not running"
    return member.node


def _or_dash(value: int | None) -> str:
    return "-" if value is None or value < 0 else str(value)


def _describe_state(state: QuorumState) -> str:
    words = [f"epoch={state.leader_epoch}"]
    if state.leader_id != NO_NODE:
        words.append(f"leader={name_of(state.leader_id)}")
    if state.voted_id != NO_NODE:
        words.append(f"voted={name_of(state.voted_id)}")
    return " ".join(words)


def _describe_log(disk: QuorumDisk) -> str:
    """The range of offsets, and behind it the epochs with the offsets at which they begin."""
    starts: dict[int, int] = {}
    for batch in disk.batches:
        starts.setdefault(batch.header.leader_epoch, batch.header.base_offset)
    epochs = ",".join(f"{epoch}@{start}" for epoch, start in starts.items())
    return f"[{disk.start_offset},{disk.end_offset})" + (f"({epochs})" if epochs else "")


def _describe_batch(batch: bytes, header: BatchHeader) -> str:
    contents = []
    for record in iterate_records(memoryview(batch)):
        if header.is_control:
            entity = decode_control_record(record.key, record.value)
            contents.append(type(entity).__name__)
        else:
            contents.append(bytes(record.value or b"").decode())
    return f"[{header.base_offset},{header.next_offset}) epoch={header.leader_epoch}: {', '.join(contents)}"


def _describe_range(records: bytes) -> str:
    first = last = read_whole_header(records)
    while records := records[last.size :]:
        last = read_whole_header(records)
    return f"[{first.base_offset},{last.next_offset})"


def _describe_request(request: messages.Request) -> str:
    api = _APIS[type(request)]
    if isinstance(request, messages.VoteRequest):
        kind = "pre-vote " if request.pre_vote else ""
        end = f"{request.last_epoch}@{request.last_epoch_end_offset}"
        return f"{api} {kind}epoch={request.candidate_epoch} log-end={end}"
    if isinstance(request, messages.BeginQuorumEpochRequest):
        return f"{api} epoch={request.leader_epoch} leader={name_of(request.leader_id)}"
    if isinstance(request, messages.EndQuorumEpochRequest):
        preferred = ",".join(name_of(candidate.node_id) for candidate in request.preferred_candidates)
        return f"{api} epoch={request.leader_epoch} preferred={preferred}"
    if isinstance(request, messages.FetchRequest):
        return (
            f"{api} epoch={request.current_leader_epoch} offset={request.fetch_offset} last-epoch={request.last_fetched_epoch}"
            f" hw={_or_dash(request.high_watermark)}"
        )
    assert isinstance(request, messages.AddVoterRequest | messages.RemoveVoterRequest)
    return f"{api} {name_of(request.voter.node_id)}"


def _describe_response(response: messages.Response) -> str:
    words = []
    if response.error is not ErrorCode.none:
        words.append(response.error.name.upper())
    if isinstance(response, messages.VoteResponse) and response.error is ErrorCode.none:
        words.append("granted" if response.is_granted else "refused")
    if isinstance(response, messages.FetchResponse) and response.error is ErrorCode.none:
        if response.diverging_epoch is not None:
            words.append(
                f"diverges: epoch {response.diverging_epoch.epoch} ends at {response.diverging_epoch.end_offset}"
            )
        elif response.records:
            words.append(_describe_range(bytes(response.records)))
        words.append(f"hw={_or_dash(response.high_watermark)}")
    else:
        leader = "" if response.leader_id == NO_NODE else f" leader={name_of(response.leader_id)}"
        words.append(f"epoch={response.leader_epoch}{leader}")
    if isinstance(response, messages.VoterChangeResponse) and response.error is ErrorCode.none:
        words.insert(0, "NONE")
    return " ".join(words)
