"""Requests of a simulated quorum that are under way, and when their senders give them up."""

from collections import deque
from functools import partial
from typing import TYPE_CHECKING

from esp.model.ids import NodeId
from esp.raft.messages import Request, Response

if TYPE_CHECKING:
    from esp.simulation.quorum_tier.member import QuorumMember, QuorumWorld


class Call:
    """A request on its way. Answers come late as well, or twice: nothing but the core itself holds them back (LOG-5)."""

    __slots__ = ("_peer", "has_ended", "request", "sender")

    def __init__(self, sender: "QuorumMember", peer: NodeId, request: Request) -> None:
        self.sender = sender
        self.request = request
        self._peer = peer
        self.has_ended = False

    def end(self, response: Response) -> None:
        """An answer has come."""
        node = self.sender.node
        if node is not None:
            self.has_ended = True
            self.sender.do(node.on_response(self.sender.now, self._peer, self.request, response))

    def fail(self, *, refused: bool) -> None:
        """No answer will come."""
        if self.has_ended:
            return
        node = self.sender.node
        if node is not None:
            self.has_ended = True
            self.sender.do(node.on_send_failed(self.sender.now, self._peer, self.request, refused=refused))


class CallTimeouts:
    """When one member gives up which of its calls.

    Nearly all calls end long before, so that all with the same time-out share one event, which comes for the oldest that has not ended.
    """

    __slots__ = ("_member", "_queues", "_world")

    def __init__(self, world: "QuorumWorld", member: "QuorumMember") -> None:
        self._world = world
        self._member = member
        self._queues: dict[int, deque[tuple[int, Call]]] = {}
        """By time-out: calls with their deadlines, the oldest first."""

    def add(self, call: Call, timeout_us: int) -> None:
        """The member has made a call."""
        queue = self._queues.get(timeout_us)
        if queue is None:
            queue = self._queues[timeout_us] = deque()
        if not queue:
            self._world.after(self._member, timeout_us, partial(self._expire, queue))
        queue.append((self._world.now_us + timeout_us, call))

    def clear(self) -> None:
        """The member's process has ended; its events are dropped."""
        self._queues = {}

    def _expire(self, queue: deque[tuple[int, Call]]) -> None:
        world, member = self._world, self._member
        life = member.incarnation
        while queue and (queue[0][1].has_ended or queue[0][0] <= world.now_us):
            # Taken out last: what the member sends meanwhile finds the queue's event armed.
            queue[0][1].fail(refused=False)
            queue.popleft()
        if queue and member.incarnation == life:
            world.after(member, queue[0][0] - world.now_us, partial(self._expire, queue))
