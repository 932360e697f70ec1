"""Clients that come, go, commit and die, coordinators that come and go, appends that fail: what must hold whatever happens."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from esp.groups.group import GroupState
from esp.model.errors import ErrorCode
from esp.schemas.group_record_codec import decode_group_record
from esp.schemas.group_records import OffsetCommitRecord
from tests.unit.groups.world import GROUP, World

CLIENTS = 5
PARTITIONS = 7
ERRORS = (ErrorCode.not_enough_replicas, ErrorCode.not_leader_or_follower, ErrorCode.message_too_large)


class Client:
    """A client as it sees itself: the third half of them are static members."""

    def __init__(self, number):
        self.number = number
        self.instance = f"instance-{number}" if number % 3 == 0 else None
        self.needs_id = number % 2 == 0
        self.member_id = ""
        self.generation = -1
        self.members = ()
        self.joining = None
        self.syncing = None

    @property
    def name(self):
        """Whom a share is given to: an instance keeps its own when it comes back under another id."""
        return self.instance or self.member_id

    def forget(self):
        self.member_id, self.generation, self.members = "", -1, ()

    def on_joined(self, result):
        self.joining = None
        if result.error is ErrorCode.none:
            self.member_id, self.generation = result.member_id, result.generation_id
            self.members = () if result.skip_assignment else result.members
        elif result.error is ErrorCode.member_id_required:
            self.member_id = result.member_id
        elif result.error is not ErrorCode.rebalance_in_progress:
            self.forget()


class GroupHistory(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.world = World(is_stuck=True)
        self.clients = [Client(number) for number in range(CLIENTS)]
        self.offset = 0
        self.commits = {}
        self.deletions = {}
        self.incarnation = 0
        self.owners = {}
        self.seen_offsets = {}
        self.has_deleted = False

    def client(self, number):
        return self.clients[number]

    @rule(number=st.integers(0, CLIENTS - 1), skips=st.booleans())
    def join(self, number, skips):
        client = self.client(number)
        if client.joining is None and client.syncing is None:
            client.joining = self.world.join(
                client.member_id,
                known=client.needs_id,
                group_instance_id=client.instance,
                supports_skipping_assignment=skips,
                rebalance_ms=12_000,
            )
        self.collect()

    @rule(number=st.integers(0, CLIENTS - 1))
    def sync(self, number):
        client = self.client(number)
        if client.joining is None and client.syncing is None and client.generation >= 0:
            shares = {}
            for partition in range(PARTITIONS if client.members else 0):
                member = client.members[partition % len(client.members)]
                shares[member.member_id] = shares.get(member.member_id, b"") + bytes((partition,))
            client.syncing = self.world.sync(
                client.member_id, client.generation, shares, group_instance_id=client.instance
            )
        self.collect()

    @rule(numbers=st.sets(st.integers(0, CLIENTS - 1)), ms=st.sampled_from([0, 3_000, 12_000]))
    def settle(self, numbers, ms):
        """These clients do what consumers do, as far as they come, and the log takes what it is given."""
        for _ in range(3):
            for number in numbers:
                client = self.client(number)
                if client.generation < 0 or self.knows_of_rebalance(client):
                    self.join(number, skips=True)
            self.append(100)
        self.sleep(ms)
        for number in numbers:
            self.sync(number)
        self.append(100)

    def knows_of_rebalance(self, client):
        error = self.world.beat(client.member_id, client.generation, instance=client.instance)
        if error in (ErrorCode.unknown_member_id, ErrorCode.fenced_instance_id) and client.joining is None:
            client.forget()
        return error is not ErrorCode.none

    @rule(number=st.integers(0, CLIENTS - 1))
    def beat(self, number):
        self.knows_of_rebalance(self.client(number))

    @rule(number=st.integers(0, CLIENTS - 1))
    def leave(self, number):
        client = self.client(number)
        self.world.leave((client.member_id, client.instance))
        if client.joining is None and client.syncing is None:
            client.forget()
        self.collect()

    @rule(number=st.integers(0, CLIENTS - 1))
    def die(self, number):
        """The client's process ends; answers to what it asked find nobody."""
        self.clients[number] = Client(number)

    @rule(number=st.integers(0, CLIENTS - 1))
    def lose_connection(self, number):
        """What the client asked for is answered to nobody; it asks again."""
        client = self.client(number)
        client.joining = client.syncing = None

    @rule(number=st.integers(0, CLIENTS), partition=st.integers(0, PARTITIONS - 1))
    def commit_offset(self, number, partition):
        self.offset += 1
        who = {}
        if number < CLIENTS:
            client = self.client(number)
            who = {"member_id": client.member_id, "generation_id": client.generation}
        ticket = self.world.commit_offsets({("t", partition): self.offset}, **who)
        self.commits[ticket] = (partition, self.offset)
        self.collect()

    @rule(ms=st.sampled_from([0, 1, 100, 3_000, 5_000, 9_999, 12_000]))
    def sleep(self, ms):
        self.world.sleep(ms)
        self.collect()

    @rule(most=st.integers(1, 5))
    def append(self, most):
        self.world.commit(most)
        self.collect()

    @precondition(lambda self: self.world.waiting)
    @rule(error=st.sampled_from(ERRORS), which=st.integers(0, 3))
    def fail(self, error, which):
        tokens = sorted(self.world.waiting)
        self.world.fail(error, tokens[which % len(tokens)])
        self.collect()

    @rule(loses=st.integers(0, 3))
    def move(self, loses):
        """Another broker coordinates: some of what was not committed is, the rest is lost."""
        for token in sorted(self.world.waiting)[: max(len(self.world.waiting) - loses, 0)]:
            self.world.log += self.world.waiting.pop(token)
        old = self.world
        self.world = old.restart(is_stuck=True)
        assert old.open_tickets() == set()
        self.collect(old)

    @rule()
    def delete_offsets(self):
        self.has_deleted = True
        self.world.delete_offsets(("t", 0))
        self.collect()

    @rule()
    def delete_group(self):
        self.has_deleted = True
        self.deletions[self.world.delete_group()] = True
        self.collect()

    def collect(self, world=None):
        """Let the clients have their answers."""
        world = world or self.world
        for client in self.clients:
            if client.joining in world.answers:
                client.on_joined(world.answers[client.joining])
            if client.syncing in world.answers:
                result = world.answers[client.syncing]
                client.syncing = None
                if result.error is ErrorCode.none:
                    self.on_assigned(client, result.assignment)
                elif result.error in (ErrorCode.unknown_member_id, ErrorCode.fenced_instance_id):
                    client.forget()
        for ticket in self.commits.keys() & world.answers.keys():
            partition, offset = self.commits.pop(ticket)
            if world.error(ticket) is ErrorCode.none:
                assert offset in self.logged_offsets(partition), "acknowledged, but not in the log"
        if any(self.deletions.pop(ticket) for ticket in self.deletions.keys() & world.answers.keys()):
            self.incarnation += 1
        if world is not self.world:
            self.commits.clear()
            self.deletions.clear()
            self.incarnation += 1
            for client in self.clients:
                client.joining = client.syncing = None

    def on_assigned(self, client, assignment):
        for partition in assignment:
            owner = self.owners.setdefault((self.incarnation, client.generation, partition), client.name)
            assert owner == client.name, "two owners in one generation"

    def logged(self):
        return [decode_group_record(record.key, record.value) for record in self.world.log]

    def logged_offsets(self, partition):
        return {
            record.value.offset
            for record in self.logged()
            if isinstance(record, OffsetCommitRecord) and record.value and record.key.partition == partition
        }

    @invariant()
    def clients_are_told_what_the_log_says(self):
        told = {}
        for record in self.logged():
            if isinstance(record, OffsetCommitRecord):
                partition = (record.key.topic, record.key.partition)
                told.pop(partition, None)
                if record.value is not None:
                    told[partition] = record.value.offset
        assert self.world.offsets() == told

    @invariant()
    def no_committed_offset_is_lost_or_moves_back(self):
        offsets = self.world.offsets()
        if not self.has_deleted:
            assert all(offsets.get(partition, -1) >= offset for partition, offset in self.seen_offsets.items())
        self.seen_offsets = offsets

    @invariant()
    def group_is_sound(self):
        described = self.world.describe()
        ids = [member.member_id for member in described.members]
        instances = [member.group_instance_id for member in described.members if member.group_instance_id]
        assert len(set(ids)) == len(ids)
        assert len(set(instances)) == len(instances)
        if described.state in (GroupState.EMPTY.value, GroupState.DEAD.value):
            assert not ids
        elif described.state != GroupState.PREPARING_REBALANCE.value:
            assert ids
        assert self.world.groups().keys() <= {GROUP}

    def teardown(self):
        self.world.do(self.world.coordinator.unload())
        assert self.world.open_tickets() == set(), "not every request was answered"


GroupHistory.TestCase.settings = settings(max_examples=60, stateful_step_count=60, deadline=None)
TestGroupHistory = GroupHistory.TestCase
