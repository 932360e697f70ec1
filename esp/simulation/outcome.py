"""The outcome of one seed's run, in figures: fleets sum them up, and shrinking and mutants ask for them."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a run; times in seconds. ``cpu_s`` is filled in by the caller that runs it."""

    seed: int
    violation: str | None
    invariant: str | None
    simulated_s: float
    steps: int
    faults: int
    acked_records: int
    read_records: int
    digest: str
    partitions: int = 0
    excused_partitions: int = 0
    """Partitions that lost more than the promise covers: nothing of their durability was asked from then on."""
    poisoned_nodes: int = 0
    """Nodes whose device lied after a failed sync: what it holds of what they flushed was not asked from then on."""
    rotten_files: int = 0
    replaced_disks: int = 0
    lost_caches: int = 0
    """The number of times that a device lost with the power what it had said to hold."""
    lost_parts: int = 0
    """The number of times that a device lost with the power a part of what it had said to hold."""
    lost_files: int = 0
    """The number of times that directories or files vanished while a node was down."""
    returned_directories: int = 0
    """The number of times that a log directory came back after a life of its node without it."""
    taken_places: int = 0
    """The number of times that a second process of a node's id was registered, as the first was gone or could not be heard."""
    second_voters: int = 0
    """Second processes of a voter's id that were started with a disk of their own (INV-ONE-VOTE)."""
    markers_in_place: int = 0
    """The number of times that an old copy came back with the running marker of an earlier life in the same file."""
    last_lives: int = 0
    """The number of times that an old copy of the life that had just ended came back so, to nodes that do not believe markers."""
    repairs: int = 0
    """The number of times that an operator had to repair a node that ended itself over rot."""
    administered: Mapping[str, int] = field(default_factory=dict)
    """The number of times that administrators did each action."""
    abandoned_nodes: int = 0
    """Nodes that never recovered."""
    given_up_starts: int = 0
    """Starts that ended because no active controller could be reached for ``initial.broker.registration.timeout.ms``, in an outage."""
    group_commits: int = 0
    """Offsets that were acknowledged to members of groups."""
    group_generations: int = 0
    """Generations of groups in which a member had an assignment."""
    old_group_members: int = 0
    """Processes of members of groups that sent the versions of older releases."""
    excused_groups: int = 0
    """Groups whose coordinators lost more than the promise covers: only that they become stable was asked from then on."""
    told_partitions: int = 0
    """Partitions of which a member of a consumer group was told, and held it since (INV-OWNER)."""
    outdated_assignments: int = 0
    """Assignments that counted for nothing: told by coordinators that had been replaced, or to members that were gone (INV-OWNER)."""
    unwitnessed_ends: int = 0
    """Classic groups that gave way to one of the consumer protocol, and whose end is not in the log (INV-GROUP-EPOCH)."""
    replayed_groups: int = 0
    """The number of times that a coordinator's consumer group was held against the replay of its log (INV-GROUP-REPLAY)."""
    member_commits: int = 0
    """Offsets that were acknowledged to members of consumer groups (INV-COMMIT-OWNER)."""
    shared_records: int = 0
    """Records that leaders delivered to members of share groups (INV-SHARE-ONE, INV-SHARE-COUNT)."""
    shared_again: int = 0
    """Such deliveries that were not the first one of their record."""
    shared_done: int = 0
    """Records of which members of share groups were answered that they are done with (INV-SHARE-ACK)."""
    shared_passed: int = 0
    """Records that start offsets of share groups passed, each for a reason (INV-SHARE-LOSS)."""
    replayed_share_groups: int = 0
    """The number of times that a coordinator's share group was held against the replay of its log (INV-GROUP-REPLAY)."""
    replayed_share_states: int = 0
    """The number of times that the states of a share coordinator were held against the replay of their log (INV-GROUP-REPLAY)."""
    replaced_share_leaders: int = 0
    """Deliveries to members of share groups by leaders that had been replaced and did not know it (INV-SHARE-ACK)."""
    expired_offsets: int = 0
    """Committed offsets that expired, each by a tombstone that was held against INV-GROUP-EXPIRY."""
    expired_answers: int = 0
    """Answers that told of no offset, as the acknowledged ones had expired (INV-GROUP-OFFSETS)."""
    acked_deletions: int = 0
    """Deletions of committed offsets that were acknowledged (INV-GROUP-OFFSETS)."""
    unwitnessed_expiries: int = 0
    """Offsets that expired of a group whose last generation is not in the log (INV-GROUP-EXPIRY)."""
    held_partitions: int = 0
    """Partitions of which records were past the limits of retention, and stayed for a hold alone (INV-HOLD)."""
    broken_holds: int = 0
    """Groups that lost what they held to a cap or a deletion, and of which a node said so (INV-HOLD)."""
    losses: int = 0
    """Leaders that began without what had been committed, beyond what is promised, and said so."""
    waiting_partitions: int = 0
    """Partitions that were left waiting for an operator, or for a node that never came back."""
    told_offsets: int = 0
    """Answers that told a client where a log begins or ends, and were held against those before (READ-1 to READ-5)."""
    told_unplaced: int = 0
    """Answers of brokers that changed their roles meanwhile: they were held against what is committed alone."""
    told_stale: int = 0
    """Answers of leaders that had been replaced and did not know it (READ-2): behind what newer leaders had told."""
    told_lower_starts: int = 0
    """Leaders that told a lower log start than the leader before (READ-3)."""
    told_unknown_newest: int = 0
    """Searches for the largest timestamp that ended at records that were not committed yet (READ-4)."""
    emptied_replicas: int = 0
    """Replicas in sync that held no committed record any more in the end: they had to serve the ends of their logs only (LIVE-READ)."""
    fallen_log_starts: int = 0
    """Logs that were cut below their starts, which fell with their ends (READ-6)."""
    forgotten_log_starts: int = 0
    """Replicas that came back with records below their log starts, because the file with the log starts had rotted (REC-6)."""
    copies_found: int = 0
    """Replicas that came back as older copies, from a log directory that had failed or been away."""
    successors_log_starts: int = 0
    """Log starts above all of a topic, in answers that came when it was gone: the next one of its name may have given them (FLOOR-2)."""
    half_cuts: int = 0
    """Cuts that failed halfway: their logs are offline, and the files hold less than these say (LOG-13)."""
    late_fetches: int = 0
    """Batches that were committed by the fetch of a follower that has lost its disk since it sent the fetch (INV-HW-EVIDENCE)."""
    excused_folds: int = 0
    """Replicas whose producers' states were held against the batches alone that have not rotted (INV-PROD-FOLD, REC-4)."""
    unverified_batches: int = 0
    """Batches and markers that were not held against a coordinator's log, as more was lost than is promised (INV-TXN-VERIFIED)."""
    unjudged_transactions: int = 0
    """Transactions that were not judged as a whole, because a partition lost more than is promised, or has no leader (INV-TXN-ATOMIC)."""
    one_turn_completions: int = 0
    """Batches and markers that were seen in the turn in which their transaction was completed (INV-TXN-VERIFIED, INV-TXN-DECIDE-ONCE)."""
    late_begins: int = 0
    """Aborts whose timeout was over only because a transaction's time runs from its client's first request (INV-TXN-OWNER)."""
    unknown_begins: int = 0
    """Last stable offsets that were not checked, as the log starts within a transaction (INV-LSO)."""
    compacted_begins: int = 0
    """Last stable offsets behind what compaction has removed of a transaction, in the nodes tier (INV-LSO)."""
    rotten_markers: int = 0
    """Last stable offsets at transactions whose markers have rotted, at replicas that have found rot (INV-LSO)."""
    unjudged_refusals: int = 0
    """Batches of open transactions that were refused in runs that heal only a core (LIVE-TXN)."""
    left_behind_leaders: int = 0
    """Leaders in the end that were replaced and do not know it, and hold a transaction (LIVE-TXN)."""
    held_ends: int = 0
    """Partitions of which no latest offset was asked, as a transaction whose coordinator waits for an operator holds it (LIVE-READ)."""
    judged_accesses: int = 0
    """Answers that were held against the rules of access (INV-AUTHZ)."""
    unjudged_accesses: int = 0
    """Answers of processes that had no metadata yet when they were asked (INV-AUTHZ)."""
    allowed_transfers: int = 0
    """Partitions that a client was let write to or read from while rules came and went (INV-AUTHZ)."""
    denied_transfers: int = 0
    """Partitions that were denied to it."""
    judged_envelopes: int = 0
    """Answers to requests that brokers pass on, held against a rule about the client's address (INV-ENVELOPE)."""
    judged_credentials: int = 0
    """Credentials at nodes that were held against an acknowledged change of users (INV-CREDENTIAL)."""
    judged_log_ins: int = 0
    """Log-ins by passwords over the network that were held against an acknowledged change of users (INV-CREDENTIAL)."""
    judged_tokens: int = 0
    """Delegation tokens at nodes, and log-ins by them, that were held against what was acknowledged (INV-CREDENTIAL)."""
    judged_quotas: int = 0
    """Requests that were held against a quota (INV-QUOTA)."""
    throttled_requests: int = 0
    """Requests whose clients were throttled (INV-QUOTA)."""
    told_held: int = 0
    """Clients of which a node said that it held them, while they had to wait (INV-QUOTA)."""
    judged_changes: int = 0
    """Requests for partitions that were granted, and held against the quota of all brokers together (INV-QUOTA)."""
    refused_changes: int = 0
    """Requests for partitions that were refused because of a quota."""
    continued_partitions: int = 0
    """Partitions that were created again and went on where the one of their name had ended (INV-OFFSET-FLOOR)."""
    leapt_partitions: int = 0
    """Partitions that were created again far above the one before, as its leader could not be asked any more (INV-OFFSET-FLOOR)."""
    restored_topics: int = 0
    """Topics that were restored from the trash (INV-TRASH)."""
    early_purges: int = 0
    """Topics in the trash that were purged before their time, by an administrator or for want of room (INV-TRASH)."""
    moved_replicas: int = 0
    """The number of times that a replica moved to another log directory of its node."""
    replaced_segments: int = 0
    """Segments that compaction put in the place of others."""
    forgotten_producers: int = 0
    """Batches that did not go on with the sequences of a producer of which nothing was left above the log start (PROD-2)."""
    retired_batches: int = 0
    """Batches that were committed and gone before their producers heard of them, and refused by a leader that started since (PROD-7)."""
    spoilt_batches: int = 0
    """Batches of records in which bits flipped on the wire."""
    excused_reads: int = 0
    """Answers of which a reader left out what had flipped on the way to it."""
    excuses: Mapping[str, int] = field(default_factory=dict)
    """By name the number of times that checks did not ask what they ask else (:mod:`esp.simulation.excuses`)."""
    details: str = ""
    cpu_s: float = 0.0
