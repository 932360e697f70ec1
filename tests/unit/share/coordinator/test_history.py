"""Random histories against a naive coordinator: whatever the log has lost at its end, or by legal pruning, the state is the model's."""

import uuid

from hypothesis import given, settings
from hypothesis import strategies as st

from esp.model.errors import ErrorCode
from esp.model.ids import TopicId
from esp.schemas.share_state_records import RecordState, ShareStateKey, StateBatch
from esp.share.coordinator.requests import Delete, Done, Initialize, Read, ReadSummary, Refused, Write
from esp.share.coordinator.settings import ShareCoordinatorSettings
from esp.share.persister import PersistedRead, PersistedSummary
from tests.unit.share.coordinator.world import TOPIC, World

OTHER = TopicId(uuid.UUID(int=8))
KEYS = [ShareStateKey("g", TOPIC, 0), ShareStateKey("h", TOPIC, 1), ShareStateKey("g", OTHER, 0)]
FAST = ShareCoordinatorSettings(
    updates_per_snapshot=2,
    cold_snapshot_interval_ms=1_000,
    prune_interval_ms=1_000,
    write_timeout_ms=10**9,
    garbage_min=1,
)
AGAIN = (ErrorCode.coordinator_not_available, ErrorCode.not_coordinator)


class Naive:
    """One share partition, its offsets one by one. Written as one reads the protocol."""

    def __init__(self):
        self.epoch = None
        """The state epoch; None if there is no state."""
        self.leader = 0
        self.is_read = False
        self.start = self.count = -1
        self.offsets = {}

    def answer(self, request, is_there):
        if isinstance(request, Read | Write) and self.epoch is None:
            return ErrorCode.invalid_request
        if isinstance(request, Read | Write) and request.leader_epoch < self.leader:
            return ErrorCode.fenced_leader_epoch
        if isinstance(request, Initialize) and self.epoch is not None and request.state_epoch < self.epoch:
            return ErrorCode.fenced_state_epoch
        if isinstance(request, Write) and (request.state_epoch != self.epoch or not self.is_read):
            return ErrorCode.fenced_state_epoch
        if not is_there and not (isinstance(request, Delete) and self.epoch is not None):
            return ErrorCode.unknown_topic_or_partition
        if isinstance(request, Delete):
            self.__init__()
        elif isinstance(request, Initialize):
            if self.epoch != request.state_epoch:
                self.epoch, self.start, self.offsets = request.state_epoch, request.start_offset, {}
                self.count = -1 if self.start < 0 else 0
        elif isinstance(request, ReadSummary):
            if self.epoch is None:
                return PersistedSummary(0, 0, -1, -1)
            return PersistedSummary(self.epoch, self.leader, self.start, self.count)
        else:
            self.leader = max(self.leader, request.leader_epoch)
            if isinstance(request, Read):
                self.is_read = True
                return self.read()
            self.write(request)
        return Done()

    def write(self, request):
        if request.start_offset > self.start:
            self.start, self.count = request.start_offset, request.complete_count
        elif request.start_offset in (self.start, -1):
            self.count = max(self.count, request.complete_count)
        for batch in request.batches:
            for offset in range(batch.start_offset, batch.end_offset):
                self.offsets[offset] = max(self.offsets.get(offset, (-1, 0)), (batch.delivery_count, batch.state))
        self.offsets = {offset: value for offset, value in self.offsets.items() if offset >= self.start}

    def read(self):
        batches = []
        for offset, (delivery_count, state) in sorted(self.offsets.items()):
            if batches and batches[-1].end_offset == offset and batches[-1][2:] == (state, delivery_count):
                batches[-1] = batches[-1]._replace(end_offset=offset + 1)
            else:
                batches.append(StateBatch(offset, offset + 1, RecordState(state), delivery_count))
        return PersistedRead(self.epoch, self.start, tuple(batches))

    def facts(self):
        return None if self.epoch is None else (self.leader, self.count, self.read())


def facts(coordinator, key):
    """The committed state in the model's form."""
    entry = coordinator._entries.get(key)
    state = None if entry is None else entry.state
    if state is None:
        return None
    return state.leader_epoch, state.complete_count, PersistedRead(state.state_epoch, state.start_offset, state.batches)


class History:
    """A coordinator, the models of its share partitions, and the requests that are not answered."""

    def __init__(self):
        self.world = World(settings=FAST, is_stuck=True)
        self.world.topics.there.add(OTHER)
        self.models = {key: Naive() for key in KEYS}
        self.open = {}

    def ask(self, request):
        ticket = next(self.world.tickets)
        self.open[ticket] = request
        self.world.do(self.world.coordinator.handle(request, ticket, self.world.now))
        self.settle()

    def settle(self):
        """Answers that came are those of the model."""
        for ticket in list(self.open):
            if ticket in self.world.answers:
                request, result = self.open.pop(ticket), self.world.answers[ticket]
                if not (isinstance(result, Refused) and result.error in AGAIN):
                    is_there = request.key.topic_id in self.world.topics.there
                    expected = self.models[request.key].answer(request, is_there)
                    assert (result.error if isinstance(result, Refused) else result) == expected

    def delete_topic(self):
        """A topic is deleted: nothing is on its way then, so that the model knows the order."""
        self.commit(None)
        self.world.topics.there.discard(OTHER)
        self.world.do(self.world.coordinator.on_topics_gone(self.world.now))
        self.commit(None)
        self.models[KEYS[2]] = Naive()

    def create_topic(self):
        """It comes back, which ids of topics never do: so the rest of the history has something to do."""
        self.commit(None)
        self.world.topics.there.add(OTHER)

    def commit(self, batches):
        self.world.commit(batches)
        self.settle()

    def fail(self, request):
        self.world.failing = ErrorCode.not_enough_replicas
        self.ask(request)
        self.world.failing = None

    def pass_time(self, ms):
        self.world.pass_time(ms)
        self.settle()

    def crash(self, kept):
        """Another coordinator begins with what is committed, and perhaps with more of what was appended."""
        world = self.world
        end = min(world.committed + kept, world.end)
        log = [(offset, record) for offset, record in world.log if offset < end]
        self.world = World(log=log, settings=FAST, topics=world.topics, is_stuck=True)
        self.world.end = self.world.committed = end
        self.world.tickets = world.tickets
        for key, model in self.models.items():
            found = facts(self.world.coordinator, key)
            pending = [request for request in self.open.values() if request.key == key]
            while model.facts() != found:
                assert pending, (key, model.facts(), found)
                request = pending.pop(0)
                model.answer(request, request.key.topic_id in world.topics.there)
            entry = self.world.coordinator._entries.get(key)
            model.is_read = entry is not None and entry.is_read
        self.open.clear()

    def check(self, cut):
        """The committed log tells the committed state, wherever it is cut by pruning."""
        world = self.world
        for key, model in self.models.items():
            assert facts(world.coordinator, key) == model.facts()
        start = world.log[0][0] if world.log else world.committed
        lowest = start + cut % (world.coordinator.prune_offset - start + 1)
        log = [(offset, record) for offset, record in world.log if lowest <= offset < world.committed]
        other = World(log=log, settings=FAST, topics=world.topics)
        for key, model in self.models.items():
            assert facts(other.coordinator, key) == model.facts()


keys = st.sampled_from(KEYS)
epochs = st.sampled_from((0, 0, 0, 0, 0, 1, 1, 2))
starts = st.sampled_from((-1, -1, 0, 3, 3, 5, 8, 12))
batches = st.builds(
    lambda start, size, state, number: StateBatch(start, start + size, state, number),
    st.integers(0, 20),
    st.integers(1, 6),
    st.sampled_from((RecordState.AVAILABLE, RecordState.ACKNOWLEDGED, RecordState.ARCHIVED)),
    st.integers(0, 3),
)
writes = st.builds(Write, keys, epochs, epochs, starts, st.integers(-1, 9), st.lists(batches, max_size=3).map(tuple))
rare = st.one_of(
    st.builds(Initialize, keys, epochs, starts),
    st.builds(Read, keys, epochs),
    st.builds(ReadSummary, keys),
    st.builds(Delete, keys),
)
requests = st.integers(0, 9).flatmap(lambda number: rare if number > 7 else writes)
usual = st.integers(0, 9).flatmap(
    lambda number: (
        st.tuples(st.just("commit"), st.sampled_from((1, 2, None)))
        if number > 5
        else st.tuples(st.just("ask"), requests)
    )
)
unusual = st.one_of(
    st.tuples(st.just("fail"), requests),
    st.tuples(st.just("pass_time"), st.sampled_from((300, 1_500))),
    st.tuples(st.just("crash"), st.integers(0, 4)),
    st.tuples(st.sampled_from(("delete_topic", "create_topic"))),
)
steps = st.integers(0, 9).flatmap(lambda number: unusual if number > 7 else usual)


@settings(max_examples=200)
@given(st.lists(st.tuples(steps, st.integers(0, 1_000)), min_size=20, max_size=40))
def test_state_is_the_models_after_each_step_whatever_is_lost(history):
    played = History()
    for key in KEYS:
        played.ask(Initialize(key, 0, 0))
        played.ask(Read(key, 0))
    for (name, *arguments), cut in history:
        getattr(played, name)(*arguments)
        played.check(cut)
