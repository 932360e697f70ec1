"""Functions that no simulated run enters, each with the reason and with what tests it instead.

``make sim-coverage`` fails where a function is neither entered nor named here, and where one is named here and entered all the same. A few
are entered by one seed in hundreds: they are named apart, and may be entered or not.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

_REASONS: Final[Mapping[str, tuple[str, ...]]] = {
    "The metrics of a node, for Prometheus or for tests that examine it from outside: a simulated node has no listener for metrics. "
    "tests/unit/broker/metrics, and the tests of its own module.": (
        "esp.broker.coordination.coordinators:PartitionCoordinators.unreadable_count",
        "esp.broker.coordination.driver:CoordinatorDriver.is_unreadable",
        "esp.broker.app:BrokerNode._serve_metrics",
        "esp.broker.app:_make_metrics",
        "esp.broker.data_path.fetch_sessions:FetchSessions.__len__",
        "esp.broker.letter_desk:LetterCounts.pending_of_groups",
        "esp.broker.replication.cleaner:LogCleaner.uncleanable",
        "esp.broker.replication.session:ReplicaSession.__len__",
        "esp.broker.replication.sessions:ReplicaSessions.__len__",
        "esp.broker.replication.trash_guard:TrashGuard.kept",
        "esp.share.partition:SharePartition.is_fenced",
        "esp.share.sessions:ShareSessions.__len__",
        "esp.share.sessions:ShareSessions.has_any_on",
        "esp.broker.transactions.coordinators:TransactionCoordinators.max_timeout_ms",
        "esp.broker.transactions.coordinators:TransactionCoordinators.oldest_start_us",
        "esp.broker.transactions.coordinators:TransactionCoordinators.pending_markers",
        "esp.broker.transactions.coordinators:TransactionCoordinators.refused_markers",
        "esp.broker.transactions.driver:TransactionCoordinatorDriver.oldest_start_us",
        "esp.broker.transactions.driver:TransactionCoordinatorDriver.pending_markers",
        "esp.broker.transactions.driver:TransactionCoordinatorDriver.refused_markers",
        "esp.controller.partition_change:is_unclean_election",
        "esp.raft.node:RaftNode.is_voter",
        "esp.raft.snapshot:read_voters",
        "esp.replication.partition_leader:PartitionLeader.min_isr",
        "esp.replication.replication_quota:ReplicationQuota.rate",
        "esp.storage.log:Log.unflushed_bytes",
        "esp.storage.producer_state:ProducerStates.oldest_open_timestamp",
        "esp.storage.trash:Trash.__len__",
        "esp.transactions.coordinator:TransactionCoordinator.oldest_start_us",
        "esp.transactions.coordinator:TransactionCoordinator.pending_markers",
        "esp.transactions.coordinator:TransactionCoordinator.refused_markers",
        "esp.transactions.lookups:oldest_start_us",
        "esp.transactions.markers:Markers.pending_count",
        "esp.transactions.markers:Markers.refused_count",
    ),
    "The command that runs a node asks where it listens. tests/unit/broker/test_app.py.": (
        "esp.broker.app:BrokerNode.listening",
    ),
    "The command that runs a node lets it prepare for requests of every kind; a simulated node prepares for a request when the first one "
    "of its kind comes. tests/unit/broker/test_warm_up.py, and tests/integration/test_lean_node.py.": (
        "esp.broker.app:BrokerNode.warm_up",
        "esp.broker.warm_up:WarmUp.__init__",
        "esp.broker.warm_up:WarmUp.close",
        "esp.broker.warm_up:WarmUp._take_step",
    ),
    "Simulated administrators create the dead-letter queues of share groups themselves. tests/unit/broker/share/test_dead_letters.py.": (
        "esp.broker.auto_create:create_dead_letter_topic",
        "esp.broker.broker_role:RunningBroker._create_dead_letter_topic",
    ),
    "The clients with quotas of a run send to a topic that is not there, and no answer of theirs is kept. "
    "tests/unit/broker/test_shortcut_counter.py.": (
        "esp.broker.shortcut_counter:ShortcutCounter.__init__",
        "esp.broker.shortcut_counter:ShortcutCounter.answer",
    ),
    "Tools ask a node to change the voters; no member of the quorum asks another. tests/unit/raft/test_voter_changes.py.": (
        "esp.broker.raft.wire.voter_changes:decode_change_response",
        "esp.broker.raft.wire.voter_changes:encode_add_request",
        "esp.broker.raft.wire.voter_changes:encode_remove_request",
    ),
    "No broker of a simulated cluster has a minimum of in-sync replicas of its own when the level is raised. "
    "tests/unit/controller/test_feature_updates.py.": ("esp.controller.feature_updates:_setting",),
    "Simulated administrators ask for rules of access that can be made. tests/unit/controller/test_acls.py.": (
        "esp.controller.acls:_invalid",
        "esp.controller.acls:_name",
    ),
    "Simulated administrators ask for quotas that can be set, of client ids. tests/unit/controller/test_client_quotas.py.": (
        "esp.controller.client_quotas:_duplicate",
        "esp.controller.client_quotas:_in_words",
        "esp.controller.client_quotas:_invalid",
        "esp.controller.client_quotas:_is_address",
    ),
    "Simulated consumers have no quota. tests/unit/broker/data_path/test_throttled_fetch.py.": (
        "esp.broker.data_path.pending_fetch:PendingFetch._throttled",
    ),
    "Simulated clients log in at brokers, and the listeners of controllers ask for no log-in. tests/unit/broker/authentication, and "
    "tests/unit/broker/apis/test_sasl_handshake.py.": (
        "esp.broker.apis.sasl_authenticate:handle_at_controller",
        "esp.broker.apis.sasl_handshake:handle_at_controller",
    ),
    "Other implementations leave such records, this one does not. tests/unit/controller/test_replay.py.": (
        "esp.controller.replay:MetadataReplay._replay",
    ),
    "A metadata log that cannot be applied ends the node: none is committed in a run. tests/unit/broker/raft/test_loader.py.": (
        "esp.broker.raft.loader:MetadataLoader._refuse",
    ),
    "Simulated nodes do not create topics on requests for their metadata (`auto.create.topics.enable=false`): such a topic would have "
    "fewer copies than the ledger takes for granted. tests/unit/broker/apis/test_metadata.py.": (
        "esp.broker.apis.metadata:_create_and_answer",
        "esp.broker.apis.metadata:_not_to_create.may_create",
    ),
    "Handlers count what clients change against quotas, set or not; this is for callers that are no clients. "
    "tests/unit/controller/test_topics.py.": ("esp.controller.mutations:admit_all",),
    "Simulated members of the classic protocol tell of their subscriptions as clients do, and groups may move between the protocols. "
    "tests/unit/groups/consumer/test_migration.py.": ("esp.groups.consumer.conversion:_not_upgradable",),
    "Simulated groups have few partitions, so that answers are short. tests/unit/broker/apis/test_consumer_group_heartbeat.py.": (
        "esp.broker.apis.consumer_group_heartbeat:_in_slices",
    ),
    "Simulated administrators do not ask for the records that members of share groups hold. "
    "tests/unit/broker/apis/test_describe_share_partitions.py.": (
        "esp.broker.apis.describe_producers:_shares",
        "esp.broker.share.leaders:ShareLeaders.look",
        "esp.broker.share.led_partition:LedSharePartition.letters_failing_us",
        "esp.broker.share.letter_writer:LetterWriter.failing_us",
    ),
    "Simulated members have records of a few partitions, which are released in one go when they end. "
    "tests/unit/broker/share/test_many_partitions.py.": ("esp.broker.share.leaders:ShareLeaders._go_on_releasing",),
    "Simulated members say nothing of records that cannot be said. tests/unit/share/test_partition.py.": (
        "esp.share.acknowledgements:_invalid",
    ),
    "Letters of simulated records are small. tests/unit/broker/share/test_dead_letters.py.": (
        "esp.share.dead_letters:without_record",
    ),
    "A simulated topic begins again far below the end of all offsets. tests/unit/broker/test_recreated_topics.py.": (
        "esp.replication.partition_leader:PartitionLeader._refuse_beyond_span",
    ),
}
"""The functions by their reason."""

UNREACHED: Final[Mapping[str, str]] = MappingProxyType(
    {name: reason for reason, names in _REASONS.items() for name in names}
)
"""The reason of each."""

SELDOM: Final[Mapping[str, str]] = MappingProxyType(
    {
        "esp.broker.broker_role:RunningBroker._on_directory_failed": "a broker that runs loses one of several log directories",
        "esp.broker.replication.gone_logs:GoneLogs._report": "a topic is restored, and this node's log is not in its trash",
        "esp.broker.replication.loading:ReplicaLoading._last_epoch": "a node finds a replica in two of its log directories",
        "esp.broker.replication.trash_guard:TrashGuard._purge": "a disk with a trash lacks room",
        "esp.controller.brokers:listed": "a broker is to be unregistered that holds last complete copies",
        "esp.controller.leadership:plan_replica_gone": "a log directory of a broker that runs is lost, with a replica that is in sync",
        "esp.groups.consumer.classic_members:_may_describe": "a member of the classic protocol joins a group with a regular expression",
        "esp.groups.consumer.departures:Departures.forget_classic": "a static member returns with the consumer protocol",
        "esp.groups.consumer.departures:Departures._settle": "a log was compacted while it was copied, and lacks the record by which a "
        "member gave a partition back (KAFKA-19862)",
        "esp.groups.consumer.departures:Departures._on_not_revoked": "a member keeps its partitions for longer than it may",
        "esp.groups.consumer.departures:Departures._on_not_fenced": "the log refuses the record that fences a member",
        "esp.groups.consumer.group:ConsumerGroup.is_subscribed_to": "the surveyor would delete offsets of a group of KIP-848",
        "esp.groups.share.departures:ShareDepartures._on_not_fenced": "the log refuses the record that fences a member of a share group",
        "esp.groups.share.deletion:ShareDeletion._delete_all.failed": "a share coordinator cannot delete the state of a group that goes",
        "esp.groups.share.deletion:ShareDeletion.delete_offsets.failed": "as above, of a topic that a group is to forget",
        "esp.share.coordinator.coordinator:ShareCoordinator.on_topics_gone": "a topic goes for good that a share group has read",
        "esp.broker.share_states.driver:ShareCoordinatorDriver.on_topics_gone": "as above",
        "esp.share.coordinator.draft:Draft.forget_if_gone": "as above",
        "esp.share.coordinator.draft:Draft.take_snapshot": "most of the log of share states is of no use, and one state does not change",
        "esp.share.acquiring:_discarded": "released records are gone, or out of attempts, when they are acquired again",
        "esp.share.acquiring:_condemned": "as above, in a group with a dead-letter queue",
        "esp.share.partition:SharePartition.on_write_failed": "no share coordinator answers until a write is given up, or it is refused",
        "esp.share.partition:SharePartition.is_in_force": "as above",
        "esp.share.partition:_undone": "as above",
        "esp.broker.share.letter_writer:LetterWriter.count_deleted": "the log start passes a record whose letter waits",
        "esp.broker.share.letter_writer:LetterWriter._lose": "a dead-letter queue takes a letter in no way",
        "esp.broker.share.letter_writer:LetterWriter._name": "as above, or a letter has waited for long",
        "esp.broker.share.letter_writer:LetterWriter._may_complain": "as above",
        "esp.broker.share.letter_writer:LetterWriter._wait": "a dead-letter queue has no leader, or too few replicas",
        "esp.replication.transaction_clients:TransactionClients.find": "the surveyor asks for producers while a transaction is open",
        "esp.storage.log_directory:LogDirectory.trash_unloaded_blocking": "a topic goes into the trash while a node is down",
        "esp.storage.log_directory:LogDirectory.load_future_blocking": "a node starts that ended while a replica moved",
        "esp.broker.apis.list_partition_reassignments:_describe": "a controller is asked while something is reassigned",
        "esp.broker.apis.add_offsets_to_txn:_create_and_add": "a transaction wants to commit the cluster's first offsets",
        "esp.broker.transactions.joining:_refusal": "one partition that is to be added to a transaction has been deleted",
        "esp.broker.coordination.latest_records:LatestRecords._supersede": "an offset was committed within a transaction that is open "
        "when the coordinator loads, and once more outside it",
        "esp.broker.apis.describe_topic_partitions:_without_partitions": "a broker is asked for a topic that it does not know",
        "esp.broker.apis.alter_replica_log_dirs:_request_move.is_known": "a move is asked for of a replica that the broker has not",
        "esp.broker.apis.offset_fetch:_all_topics": "the surveyor's group has a coordinator, and is asked for all its offsets",
        "esp.broker.apis.offset_fetch:_later": "offsets are asked for while one of them is being committed",
        "esp.broker.data_path.long_fetch:LongFetch._look_soon": "a fetch of very many partitions finds none of them refused",
        "esp.broker.data_path.long_fetch:LongFetch._on_news": "as above",
        "esp.broker.data_path.long_fetch:LongFetch._time_out": "as above",
        "esp.broker.raft.snapshots:SnapshotDownload.discard": "a fetched snapshot is given up, as its leader is gone or it has rotted",
        "esp.broker.raft.wire.metadata_partition:RefusedCallError.__init__": "a member of the quorum is refused as none of this quorum's",
        "esp.broker.raft.peers:QuorumPeers._tell_refusal": "as above",
        "esp.broker.replication.directories:ReplicaDirectories.prefer": "a move is asked for of a replica that the broker has not",
        "esp.broker.replication.host:ReplicaHost.take_offline": "a follower would have to cut what it knows to be committed (TRUNC-8)",
        "esp.broker.replication.isr_updates:_unsettled": "a request for changes of in-sync sets is refused as a whole",
        "esp.broker.replication.loading:ReplicaLoading._is_assigned": "a node starts that ended while a replica moved",
        "esp.broker.replication.log_dir_moves:LogDirMoves.lag": "directories are asked for while a replica moves from one to another",
        "esp.broker.replication.loading:ReplicaLoading._is_newer": "a node finds a replica in two of its log directories",
        "esp.broker.replication.retention:_tell": "a segment is to be dropped while the disk is full or fails",
        "esp.broker.replication.rotten_replicas:RottenReplicas._say_alone": "a replica is corrupt, and no other one is in sync",
        "esp.broker.replication.sessions:_refuse": "a broker opens a session for partitions that it has no longer",
        "esp.broker.transactions.coordinators:TransactionCoordinators._get_producer_ids": "a producer's epochs run out while its "
        "node has no producer id left",
        "esp.controller.assignment:check_assignment": "a topic is asked for with replicas of the surveyor's choice, and all else is well",
        "esp.controller.topics:TopicCreation._replicas_by_assignment": "as above",
        "esp.groups.group:Member.described": "the coordinator of a group with members is asked for it",
        "esp.groups.offset_store:OffsetStore.fail_transactional": "offsets of a transaction are not committed before their coordinator is "
        "replaced",
        "esp.groups.rebalances:Rebalances.resume": "the log refuses the record by which a group moves to the consumer protocol",
        "esp.groups.transactional_offsets:TransactionalOffsets.remove": "as above",
        "esp.groups.transactional_offsets:TransactionalOffsets.has": "offsets are to be deleted that the group never committed",
        "esp.groups.joining:StaticRejoin._on_outcome": "a static member returns while its group is stable",
        "esp.groups.joining:StaticRejoin._undo": "a static member's return cannot be written",
        "esp.raft.node:RaftNode.on_snapshot_refused": "a fetched snapshot has rotted on its way to the disk",
        "esp.replication.keyless:KeylessRecordsError.__init__": "a client's mistake of records without keys reaches the leader of a "
        "compacted topic",
        "esp.transactions.coordinator:TransactionCoordinator.describe": "the surveyor asks for transactions at a broker that "
        "coordinates some",
        "esp.transactions.coordinator:TransactionCoordinator.list_transactions": "as above",
        "esp.transactions.lookups:describe": "as above",
        "esp.transactions.lookups:list_transactions": "as above",
        "esp.transactions.lookups:_passes": "as above",
        "esp.transactions.coordinator:TransactionCoordinator.on_marker_refused": "a partition refuses a marker, as a newer "
        "coordinator wrote one there",
        "esp.transactions.markers:Markers.on_refused": "as above",
        "esp.replication.future_replica:FutureReplica._cut_at": "a replica is cut below what its copy in another directory has",
        "esp.storage.log:Log._out_of_range": "a log is cut or removed between the check of an offset and the read",
    }
)
"""Each with the event that has to happen in the same moment."""
