"""A member of the classic protocol as its client sees itself: it gives everything back before it joins, or is cooperative."""

from esp.groups.embedded_protocol import read_assignment
from esp.groups.requests import Protocol
from esp.model.errors import ErrorCode
from tests.unit.groups.world import GROUP, REBALANCE_MS, SESSION_MS


def subscription(*topics, owned=(), version=3, rack=None):
    """The metadata of a member: ``owned`` are pairs of a topic and a partition."""
    body = version.to_bytes(2, "big") + _strings(topics) + b"\xff\xff\xff\xff"
    if version >= 1:
        body += _partitions(owned)
    if version >= 2:
        body += b"\xff\xff\xff\xff"
    if version >= 3:
        body += b"\xff\xff" if rack is None else _string(rack)
    return body


def assignment(*partitions, version=3, user_data=b""):
    """An assignment of pairs of a topic and a partition."""
    return version.to_bytes(2, "big") + _partitions(partitions) + len(user_data).to_bytes(4, "big") + user_data


def _string(text):
    return len(text).to_bytes(2, "big") + text.encode()


def _strings(texts):
    return len(texts).to_bytes(4, "big") + b"".join(map(_string, texts))


def _partitions(partitions):
    topics = {}
    for topic, number in sorted(partitions):
        topics.setdefault(topic, []).append(number)
    body = len(topics).to_bytes(4, "big")
    for topic, numbers in topics.items():
        body += _string(topic) + len(numbers).to_bytes(4, "big")
        body += b"".join(number.to_bytes(4, "big") for number in numbers)
    return body


class ClassicClient:
    """One member; ``owned`` are the partitions that it uses.

    Args:
        world: its coordinator.
        topics: its subscription.
        is_cooperative: whether it keeps its partitions when it joins.
        instance_id: of a static member.
    """

    def __init__(self, world, *topics, is_cooperative=False, instance_id=None):
        self.world = world
        self.topics = topics or ("t",)
        self.is_cooperative = is_cooperative
        self.instance_id = instance_id
        self.member_id = ""
        self.generation_id = -1
        self.owned = frozenset()
        self.ticket = None
        self.leads = False
        self.others = ()

    @property
    def protocols(self):
        owned = self.owned if self.is_cooperative else ()
        name = "cooperative-sticky" if self.is_cooperative else "range"
        return (Protocol(name, subscription(*self.topics, owned=owned)),)

    def ask_to_join(self):
        """Send JoinGroup."""
        if not self.is_cooperative:
            self.owned = frozenset()
        more = {} if self.instance_id is None else {"group_instance_id": self.instance_id}
        self.ticket = self.world.join(self.member_id, protocols=self.protocols, **more)

    def take_join(self):
        """Read the answer; returns its error."""
        result = self.world.answers[self.ticket]
        self.ticket = None
        if result.error is ErrorCode.none:
            self.member_id, self.generation_id = result.member_id, result.generation_id
            self.leads, self.others = bool(result.members), result.members
        elif result.error in (ErrorCode.unknown_member_id, ErrorCode.fenced_instance_id):
            self.give_up()
        elif result.error is ErrorCode.member_id_required:
            self.member_id = result.member_id
        return result.error

    def give_up(self):
        """It is no member any more."""
        self.member_id, self.generation_id, self.owned = "", -1, frozenset()

    def sync(self, assignments=None):
        """Send SyncGroup; returns the ticket."""
        more = {} if self.instance_id is None else {"group_instance_id": self.instance_id}
        return self.world.sync(self.member_id, self.generation_id, assignments, **more)

    def take_sync(self, ticket):
        """Read the answer; returns its error. A cooperative member gives back what it does not get."""
        result = self.world.answers[ticket]
        if result.error is ErrorCode.none:
            self.owned = frozenset(map(tuple, read_assignment(result.assignment).partitions))
        elif result.error in (ErrorCode.unknown_member_id, ErrorCode.fenced_instance_id, ErrorCode.illegal_generation):
            self.give_up()
        return result.error

    def join(self):
        """Join and sync with a consumer group, which answers at once; returns what it has."""
        self.ask_to_join()
        assert self.take_join() is ErrorCode.none
        assert self.take_sync(self.sync()) is ErrorCode.none
        return self.owned

    def beat(self):
        """Send Heartbeat; returns the error."""
        return self.world.beat(self.member_id, self.generation_id, instance=self.instance_id)

    def leave(self):
        """Send LeaveGroup; returns the ticket."""
        return self.world.leave((self.member_id, self.instance_id))


def share(clients, topics):
    """The assignment that a leader makes: the partitions by turns, to clients by their member ids; cooperative ones keep what they have."""
    ids = sorted(clients)
    given = {member_id: [] for member_id in ids}
    taken = {partition: member_id for member_id, client in clients.items() for partition in client.owned}
    for turn, partition in enumerate(topics):
        given[taken.get(partition, ids[turn % len(ids)])].append(partition)
    return {member_id: assignment(*partitions) for member_id, partitions in given.items()}


__all__ = ["GROUP", "REBALANCE_MS", "SESSION_MS", "ClassicClient", "assignment", "share", "subscription"]
