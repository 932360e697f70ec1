"""All transactional ids that this node coordinates: a driver for each partition of ``__transaction_state`` that it leads."""

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, Final

from esp.broker.cluster_view.cache import MetadataCache
from esp.broker.controller_client.producer_ids import ProducerIds
from esp.broker.coordination.coordinators import PartitionCoordinators
from esp.broker.replication.hosted_partition import HostedPartition
from esp.broker.tasks import Tasks
from esp.broker.transactions.level import require_transactions
from esp.model.errors import ApiError, ErrorCode
from esp.model.features import TRANSACTION_VERSION
from esp.model.ids import TRANSACTIONS_TOPIC, NodeId
from esp.ports.env import Env
from esp.ports.network import Address
from esp.settings.broker import BrokerSettings

if TYPE_CHECKING:
    from esp.broker.transactions.driver import TransactionCoordinatorDriver
    from esp.broker.transactions.marker_sender import MarkerSender, WriteMarkers

_DRIVER: Final = "esp.broker.transactions.driver"
_CONFIG: Final = "esp.broker.transactions.config"
_SENDER: Final = "esp.broker.transactions.marker_sender"


class TransactionCoordinators(PartitionCoordinators["TransactionCoordinatorDriver"]):
    """Begins a coordinator as this node comes to lead its partition, and finds the one of a transactional id.

    Args:
        env: the outside.
        settings: the node's.
        metadata: as clients are told.
        tasks: the tasks in which coordinators load and markers are sent.
        producer_ids: this node's ids.
        address_of: the address of a broker for other brokers; None if that is not known.
        write_markers: writes the markers of transactions that are for this node.
        on_disk_error: called when a partition's log could not be written.
    """

    topic: ClassVar = TRANSACTIONS_TOPIC
    subject: ClassVar = "transactions"

    def __init__(
        self,
        env: Env,
        settings: BrokerSettings,
        metadata: MetadataCache,
        tasks: Tasks,
        producer_ids: ProducerIds,
        address_of: Callable[[NodeId], Address | None],
        write_markers: "WriteMarkers",
        on_disk_error: Callable[[HostedPartition, Exception], None],
    ) -> None:
        super().__init__(metadata, tasks)
        self._env = env
        self._settings = settings
        self._producer_ids = producer_ids
        self._address_of = address_of
        self._write_markers = write_markers
        self._on_disk_error = on_disk_error
        self._sender: MarkerSender | None = None

    @property
    def feature_level(self) -> int:
        """The cluster's ``transaction.version``: at 0 no transactions are served."""
        return self._metadata.image.features.get(TRANSACTION_VERSION, 0)

    def coordinator_of(self, transactional_id: str) -> "TransactionCoordinatorDriver":
        """The coordinator that has a transactional id.

        Raises:
            ApiError: INVALID_REQUEST for the empty id, TRANSACTIONAL_ID_AUTHORIZATION_FAILED while there are no transactions (decision
                38), NOT_COORDINATOR.
        """
        self.require_served(transactional_id)
        return self._of_key(transactional_id)

    def require_served(self, transactional_id: str) -> None:
        """Refuse what no coordinator will ever take.

        Raises:
            ApiError: see :meth:`coordinator_of`.
        """
        if not transactional_id:
            raise ApiError(ErrorCode.invalid_request)
        require_transactions(self._metadata.image)

    @property
    def max_timeout_ms(self) -> int:
        """The longest timeout that a client may ask for (``transaction.max.timeout.ms``)."""
        return self._settings.transaction_max_timeout_ms

    @property
    def oldest_start_us(self) -> int | None:
        """The monotonic time at which the oldest transaction that is not completed began; None if there is none. Looks at all ids."""
        starts = (coordinator.oldest_start_us for coordinator in self)
        return min((start_us for start_us in starts if start_us is not None), default=None)

    @property
    def pending_markers(self) -> int:
        """The number of markers of ended transactions that are not written yet."""
        return sum(coordinator.pending_markers for coordinator in self)

    @property
    def refused_markers(self) -> int:
        """The number of markers that partitions have refused for good, and that hold up a transaction."""
        return sum(coordinator.refused_markers for coordinator in self)

    def on_trashed(self) -> None:
        """Topics were put in the trash: transactions that are open in them are aborted (TRASH-4)."""
        for coordinator in self:
            coordinator.abort_trashed()
        self.forget_ended()

    def _is_trashed(self, name: str) -> bool:
        return self._metadata.image.is_trashed(name)

    def close(self) -> None:
        """Coordinate nothing any more; waiting requests are answered so."""
        super().close()
        if self._sender is not None:
            self._sender.close()

    def _new_driver(self, hosted: HostedPartition) -> "TransactionCoordinatorDriver":
        config = importlib.import_module(_CONFIG)
        if self._sender is None:
            self._sender = importlib.import_module(_SENDER).MarkerSender(
                self._env,
                self._settings.node_id,
                self._metadata,
                self._address_of,
                self._write_markers,
                self._tasks,
                terms=self._settings.inter_broker_terms,
            )
        return load_driver_class()(
            self._env,
            hosted,
            config.TransactionConfig(
                config.transaction_settings(self._settings),
                self._on_disk_error,
                lambda: self.feature_level,
                self._is_trashed,
                self._take_producer_id,
            ),
            self._sender,
        )

    def _take_producer_id(self) -> int | None:
        producer_id = self._producer_ids.next_now()
        if producer_id is None:
            self._tasks.start(self._get_producer_ids(), name="producer ids for transactions")
        return producer_id

    async def _get_producer_ids(self) -> None:
        await self._producer_ids.try_to_have_one()


def load_driver_class() -> "type[TransactionCoordinatorDriver]":
    """The coordinators' class: loaded when there are transactions, or when the node has the time: its start does not wait for it."""
    found: type[TransactionCoordinatorDriver] = importlib.import_module(_DRIVER).TransactionCoordinatorDriver
    return found
