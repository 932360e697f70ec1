"""The faults that may befall a simulated cluster: their kinds, and one planned fault.

A plan is a list of faults, drawn before the run and then carried out: it can be printed, cut down and run again.
"""

from enum import Enum
from typing import NamedTuple


class FaultKind(Enum):
    """The kinds, by what they are called in traces."""

    KILL = "kill"
    """The process dies; the machine answers, and refuses connections."""
    KILL_IN_DISK = "kill in disk"
    """The process dies at the ``amount``-th change that it makes to its disk from now on."""
    KILL_CONTROLLER = "kill controller"
    """The process of the active controller dies."""
    STRAND = "strand"
    """The other copies of a partition of ``reckless`` die, and when its leader is alone in sync, it does; the others are back at once."""
    RESTART = "restart"
    """The node is shut down cleanly and started again."""
    POWER_LOSS = "power loss"
    """The machine goes dark; what was not synced survives in part."""
    BLACKOUT = "blackout"
    """All machines that hold a partition go dark at once, more than may lose power; ``amount`` chooses the partition."""
    LOSE_COPIES = "lose copies"
    """All brokers with a complete copy of a partition come back with empty disks; ``amount`` chooses the partition."""
    PAUSE = "pause"
    """The process stands still and then does in one burst what it missed."""
    CUT = "cut"
    """Two nodes do not reach one another; others reach both."""
    CUT_ONE_WAY = "cut one way"
    """Packets of the first node do not reach the second."""
    ISOLATE = "isolate"
    """A node reaches no other node, and none reaches it."""
    CUT_CLIENTS = "cut clients"
    """A node and the clients do not reach one another."""
    OSTRACIZE = "ostracize"
    """A node and all others do not reach one another; clients reach all."""
    LONG_OSTRACISM = "long ostracism"
    """As OSTRACIZE, of a leader, for so long that it is replaced, and must know that it may be; ``amount`` chooses its partition."""
    FLAP = "flap"
    """As CUT, off and on every ``amount`` seconds."""
    DELAY = "delay"
    """Packets from and to a node take up to ``amount`` seconds longer."""
    LOSS = "loss"
    """A share ``amount`` of the packets of a node must be sent again."""
    THROTTLE = "throttle"
    """A node sends and receives ``amount`` bytes a second with each other host."""
    FLIP = "flip"
    """In a share ``amount`` of what a node sends and receives bits of a batch of records flip on the way."""
    RESET = "reset"
    """All connections of a node break."""
    SLOW_DISK = "slow disk"
    """The device takes ``amount`` times as long."""
    FULL_DISK = "full disk"
    """After ``amount`` more bytes the disk is full."""
    IO_ERROR = "io error"
    """The next ``amount`` writes, or syncs if it is negative, fail."""
    BIT_ROT = "bit rot"
    """Bits flip in one of the node's files; ``amount`` chooses which, and where."""
    NEW_DISK = "new disk"
    """The machine comes back with an empty disk, formatted with a directory id of its own."""
    OLD_DISK = "old disk"
    """The node's records are copied, and ``seconds`` later the copy is put in their place, as a careless restore does."""
    LOST_CACHE = "lost cache"
    """The bytes that the node syncs for ``seconds`` do not reach its device, which says that they did; then the machine loses power."""
    LOST_PART = "lost part"
    """After ``seconds`` a broker's machine loses power, and its device the last sectors of some of the files that were synced meanwhile;
    ``amount`` chooses."""
    LOST_FILES = "lost files"
    """While the node is down a log directory, a partition's directory or files of a log vanish; ``amount`` chooses which."""
    LOG_DIR_AWAY = "log directory away"
    """A log directory is missing from the node's next start on, and comes back with a start after ``seconds``; ``amount`` chooses how."""
    ABSENCE = "absence"
    """The process is dead for so long that a cluster which repairs itself may give the broker up."""
    TWIN = "twin"
    """A second process of the node's id is started on another host, on a copy of the disk or an empty one; ``amount`` chooses which."""
    VOTER_TWIN = "voter twin"
    """A second process of a controller's id is started on another host, with an empty disk."""
    LATE_TIMER = "late timer"
    """A broker stands still, and the active controller does so for a second each time that the timer of the sessions is due."""
    RELOCATE = "relocate"
    """A voter is shut down cleanly, and listens at another port for the other controllers when it is back."""
    CLOCK_JUMP = "clock jump"
    """The operator sets the wall clock by ``amount`` seconds."""
    LAPSE = "lapse"
    """The wall clocks of all nodes go ahead by ``amount`` seconds, as if nothing had happened for so long."""
    AT_DECISION = "at decision"
    """When the next transaction is decided, its coordinator is killed, paused or cut off before its markers; ``amount`` chooses."""
    LOST_MARKER_ANSWERS = "lost marker answers"
    """When the next transaction is decided, nothing reaches its coordinator from other nodes; ``seconds`` later its connections break."""
    STALE_COORDINATOR = "stale coordinator"
    """When the next transaction is decided, metadata comes late to its coordinator, and the leader of a partition of it dies."""
    TARGETED = "targeted"
    """At the next named point of the code that is reached, the nastiest thing for that place happens; ``amount`` chooses among them."""


class Fault(NamedTuple):
    """One fault of a plan.

    ``nodes`` has the ids of those concerned, ``seconds`` says how long it lasts (for a death: until the restart), ``amount`` how bad it is.
    """

    at_s: float
    kind: FaultKind
    nodes: tuple[int, ...]
    seconds: float
    amount: float = 0.0

    def __str__(self) -> str:
        who = " and ".join(map(str, self.nodes))
        amount = f", {self.amount:g}" if self.amount else ""
        return f"{self.kind.value} of {who} for {self.seconds:.2f} s{amount}"
