"""An address of the simulated network at which a process waits for connections."""

import contextvars
from collections.abc import Callable

from esp.ports.network import Address, Connection, ConnectionOwner
from esp.simulation.machine.loop import current_process


class SimulatedListener:
    """See :class:`esp.ports.network.Listener`; it belongs to the process that makes it.

    Args:
        address: where it listens.
        accept: makes the owner of each connection.
        on_close: called when it accepts no more.
    """

    def __init__(
        self, address: Address, accept: Callable[[Connection], ConnectionOwner], on_close: Callable[[], object]
    ) -> None:
        self.address = address
        self.accept = accept
        self.process = current_process()
        self.context = contextvars.copy_context()
        self._on_close = on_close

    async def close(self) -> None:
        """See :class:`esp.ports.network.Listener`."""
        self._on_close()
