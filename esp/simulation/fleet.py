"""Many seeds on all cores, and what came of them all."""

import logging
import multiprocessing
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Final

from esp.simulation.excuses import lines_of
from esp.simulation.outcome import Outcome
from esp.simulation.seeds import prepare_process, run_seed
from esp.simulation.tiers import RUNS, Found

SEEDS_PER_PROCESS = 200
"""After so many a process is replaced by a fresh one: what the runs left behind is gone."""

SEEDS_PER_TASK: Final = 10
"""Seeds of a fast tier that a process is given at a time."""

FAILED_SHOWN = 20
"""Failures that are listed; where there are more, one cause has many."""


@dataclass(slots=True)
class Summary:
    """The figures of many runs."""

    seeds: int = 0
    simulated_s: float = 0.0
    cpu_s: float = 0.0
    faults: int = 0
    acked_records: int = 0
    read_records: int = 0
    steps: int = 0
    partitions: int = 0
    excused_partitions: int = 0
    poisoned_nodes: int = 0
    rotten_files: int = 0
    replaced_disks: int = 0
    lost_caches: int = 0
    lost_parts: int = 0
    lost_files: int = 0
    returned_directories: int = 0
    taken_places: int = 0
    second_voters: int = 0
    excused_folds: int = 0
    unverified_batches: int = 0
    unjudged_transactions: int = 0
    one_turn_completions: int = 0
    late_begins: int = 0
    unknown_begins: int = 0
    compacted_begins: int = 0
    rotten_markers: int = 0
    unjudged_refusals: int = 0
    left_behind_leaders: int = 0
    held_ends: int = 0
    judged_accesses: int = 0
    unjudged_accesses: int = 0
    allowed_transfers: int = 0
    denied_transfers: int = 0
    judged_envelopes: int = 0
    judged_credentials: int = 0
    judged_log_ins: int = 0
    judged_tokens: int = 0
    judged_quotas: int = 0
    throttled_requests: int = 0
    told_held: int = 0
    judged_changes: int = 0
    refused_changes: int = 0
    markers_in_place: int = 0
    last_lives: int = 0
    repairs: int = 0
    abandoned_nodes: int = 0
    given_up_starts: int = 0
    group_commits: int = 0
    group_generations: int = 0
    old_group_members: int = 0
    excused_groups: int = 0
    told_partitions: int = 0
    outdated_assignments: int = 0
    unwitnessed_ends: int = 0
    replayed_groups: int = 0
    member_commits: int = 0
    shared_records: int = 0
    shared_again: int = 0
    shared_done: int = 0
    shared_passed: int = 0
    replaced_share_leaders: int = 0
    replayed_share_groups: int = 0
    replayed_share_states: int = 0
    expired_offsets: int = 0
    expired_answers: int = 0
    acked_deletions: int = 0
    unwitnessed_expiries: int = 0
    held_partitions: int = 0
    broken_holds: int = 0
    forgotten_producers: int = 0
    retired_batches: int = 0
    losses: int = 0
    waiting_partitions: int = 0
    told_offsets: int = 0
    told_unplaced: int = 0
    told_stale: int = 0
    told_lower_starts: int = 0
    told_unknown_newest: int = 0
    emptied_replicas: int = 0
    fallen_log_starts: int = 0
    forgotten_log_starts: int = 0
    copies_found: int = 0
    successors_log_starts: int = 0
    half_cuts: int = 0
    late_fetches: int = 0
    continued_partitions: int = 0
    leapt_partitions: int = 0
    restored_topics: int = 0
    early_purges: int = 0
    moved_replicas: int = 0
    spoilt_batches: int = 0
    excused_reads: int = 0
    administered: Counter[str] = field(default_factory=Counter)
    excuses: Counter[str] = field(default_factory=Counter)
    failed: list[Outcome] = field(default_factory=list)

    def add(self, outcome: Outcome) -> None:
        """Count one run."""
        self.seeds += 1
        for name in _SUMMED:
            setattr(self, name, getattr(self, name) + getattr(outcome, name))
        self.administered.update(outcome.administered)
        self.excuses.update(outcome.excuses)
        if outcome.violation is not None:
            self.failed.append(outcome)

    def lines(self) -> Iterator[str]:
        """The figures, and how each failure is seen again."""
        yield f"seeds run                        {self.seeds:>12,}"
        yield f"simulated hours                  {self.simulated_s / 3600:>12,.2f}"
        yield f"effective faults                 {self.faults:>12,}"
        yield f"acknowledged records             {self.acked_records:>12,}"
        yield f"records read                     {self.read_records:>12,}"
        yield f"partitions                       {self.partitions:>12,}"
        yield f"  excused from durability        {self.excused_partitions:>12,}"
        yield f"  whose leaders logged losses   {self.losses:>12,}"
        yield f"  batches of forgotten producers {self.forgotten_producers:>12,}"
        yield f"  refused when they were gone    {self.retired_batches:>12,}"
        yield f"  waiting for an operator        {self.waiting_partitions:>12,}"
        yield from self._group_lines()
        yield f"offsets reported to clients      {self.told_offsets:>12,}"
        yield f"  by brokers that changed roles  {self.told_unplaced:>12,}"
        yield f"  by leaders that were replaced  {self.told_stale:>12,}"
        yield f"  lower log starts               {self.told_lower_starts:>12,}"
        yield f"  largest times not committed    {self.told_unknown_newest:>12,}"
        yield f"  replicas emptied in the end    {self.emptied_replicas:>12,}"
        yield f"  log starts that fell with cuts {self.fallen_log_starts:>12,}"
        yield f"  log starts that had rotted     {self.forgotten_log_starts:>12,}"
        yield f"  copies of failed directories   {self.copies_found:>12,}"
        yield f"  log starts of later topics     {self.successors_log_starts:>12,}"
        yield f"  cuts that failed halfway       {self.half_cuts:>12,}"
        yield f"  commits by late fetches        {self.late_fetches:>12,}"
        yield f"nodes whose devices lied         {self.poisoned_nodes:>12,}"
        yield f"nodes that never recovered       {self.abandoned_nodes:>12,}"
        yield f"starts given up in outages       {self.given_up_starts:>12,}"
        for what, times in sorted(self.administered.items()):
            yield f"  {what:<31}{times:>12,}"
        yield f"batches spoilt on the wire       {self.spoilt_batches:>12,}"
        yield f"  reads excused for that         {self.excused_reads:>12,}"
        yield f"files that rotted                {self.rotten_files:>12,}"
        yield f"  nodes ended by that, repaired  {self.repairs:>12,}"
        yield f"  producers of what is left      {self.excused_folds:>12,}"
        yield from self._lines_of_transactions()
        yield from self._lines_of_access()
        yield f"devices that lost what they held {self.lost_caches:>12,}"
        yield f"devices that lost a part of it   {self.lost_parts:>12,}"
        yield f"disks replaced                   {self.replaced_disks:>12,}"
        yield f"directories and files lost       {self.lost_files:>12,}"
        yield f"log directories that came back   {self.returned_directories:>12,}"
        yield f"places taken by second processes {self.taken_places:>12,}"
        yield f"second processes of voters       {self.second_voters:>12,}"
        yield f"partitions that went on          {self.continued_partitions:>12,}"
        yield f"  far above the end before       {self.leapt_partitions:>12,}"
        yield f"topics restored from the trash   {self.restored_topics:>12,}"
        yield f"  purged there before their time {self.early_purges:>12,}"
        yield f"replicas moved on their nodes    {self.moved_replicas:>12,}"
        yield f"markers restored in place        {self.markers_in_place:>12,}"
        yield f"  of the life that had just ended{self.last_lives:>12,}"
        yield from lines_of(self.excuses)
        yield f"violations                       {len(self.failed):>12,}"
        yield f"CPU-seconds                      {self.cpu_s:>12,.1f}"
        yield f"simulated seconds per CPU-second {self.simulated_s / max(self.cpu_s, 1e-9):>12,.1f}"
        yield f"effective faults per CPU-second  {self.faults / max(self.cpu_s, 1e-9):>12,.1f}"
        for outcome in self.failed[:FAILED_SHOWN]:
            yield f"  seed {outcome.seed}: {outcome.violation}"
            yield f"    again: make sim SEED={outcome.seed}    fewer faults: make sim-shrink SEED={outcome.seed}"

    def _group_lines(self) -> Iterator[str]:
        """The figures of groups of both protocols."""
        yield f"offsets committed by groups      {self.group_commits:>12,}"
        yield f"generations of groups            {self.group_generations:>12,}"
        yield f"  members of older releases      {self.old_group_members:>12,}"
        yield f"groups excused from durability   {self.excused_groups:>12,}"
        yield f"partitions given to members      {self.told_partitions:>12,}"
        yield f"  in outdated assignments        {self.outdated_assignments:>12,}"
        yield f"  given way, end not in the log  {self.unwitnessed_ends:>12,}"
        yield f"  commits of members             {self.member_commits:>12,}"
        yield f"  coordinators held to logs      {self.replayed_groups:>12,}"
        yield f"records of share groups          {self.shared_records:>12,}"
        yield f"  delivered again                {self.shared_again:>12,}"
        yield f"  done with, by their answers    {self.shared_done:>12,}"
        yield f"  passed by start offsets        {self.shared_passed:>12,}"
        yield f"  of replaced leaders            {self.replaced_share_leaders:>12,}"
        yield f"  groups held to logs            {self.replayed_share_groups:>12,}"
        yield f"  states held to logs            {self.replayed_share_states:>12,}"
        yield f"offsets deleted by clients       {self.acked_deletions:>12,}"
        yield f"offsets that expired             {self.expired_offsets:>12,}"
        yield f"  answers that rest on that      {self.expired_answers:>12,}"
        yield f"  after an unwritten generation  {self.unwitnessed_expiries:>12,}"
        yield f"partitions that holds kept whole {self.held_partitions:>12,}"
        yield f"  holds that were broken         {self.broken_holds:>12,}"

    def _lines_of_access(self) -> Iterator[str]:
        """The figures of rules of access, log-ins and quotas."""
        yield f"answers held against rules       {self.judged_accesses:>12,}"
        yield f"  of nodes without metadata      {self.unjudged_accesses:>12,}"
        yield f"  reads and writes let through   {self.allowed_transfers:>12,}"
        yield f"  reads and writes denied        {self.denied_transfers:>12,}"
        yield f"requests passed on and judged    {self.judged_envelopes:>12,}"
        yield f"credentials held against changes {self.judged_credentials:>12,}"
        yield f"log-ins held against changes     {self.judged_log_ins:>12,}"
        yield f"tokens held against changes      {self.judged_tokens:>12,}"
        yield f"requests held against quotas     {self.judged_quotas:>12,}"
        yield f"  throttled                      {self.throttled_requests:>12,}"
        yield f"  named as held                  {self.told_held:>12,}"
        yield f"partitions asked for by a quota  {self.judged_changes:>12,}"
        yield f"  refused                        {self.refused_changes:>12,}"

    def _lines_of_transactions(self) -> Iterator[str]:
        """The figures of what was not judged."""
        yield f"transactions not judged          {self.unjudged_transactions:>12,}"
        yield f"  batches of them not verified   {self.unverified_batches:>12,}"
        yield f"  seen when they were completed  {self.one_turn_completions:>12,}"
        yield f"  aborted, begun before seen     {self.late_begins:>12,}"
        yield f"  that begin before a log start  {self.unknown_begins:>12,}"
        yield f"  whose first records are gone   {self.compacted_begins:>12,}"
        yield f"  whose markers have rotted      {self.rotten_markers:>12,}"
        yield f"  refused beside a core          {self.unjudged_refusals:>12,}"
        yield f"  at leaders left behind         {self.left_behind_leaders:>12,}"
        yield f"  that hold a latest offset      {self.held_ends:>12,}"


_SUMMED: Final = {each.name for each in fields(Summary)} & {each.name for each in fields(Outcome)} - {
    "administered",
    "excuses",
}
"""The figures of a run that are added up."""


def run_seeds(
    seeds: Iterable[int],
    *,
    node_count: int | None = None,
    processes: int | None = None,
    on_outcome: Callable[[Outcome], None] = lambda _outcome: None,
) -> Summary:
    """Run seeds in as many processes as there are cores, and sum up.

    Args:
        seeds: which.
        node_count: overrules what the seeds say of their clusters' size.
        processes: how many; None: one for each core.
        on_outcome: called with each run's outcome as it ends, in the order of the seeds.
    """
    summary = Summary()
    context = multiprocessing.get_context("forkserver")
    with context.Pool(processes or os.cpu_count(), prepare_process, maxtasksperchild=SEEDS_PER_PROCESS) as pool:
        for outcome in pool.imap(partial(run_seed, node_count=node_count), seeds):
            summary.add(outcome)
            on_outcome(outcome)
    return summary


@dataclass(slots=True)
class TierSummary:
    """The figures of many runs of one of the fast tiers."""

    tier: str
    seeds: int = 0
    cpu_s: float = 0.0
    excuses: Counter[str] = field(default_factory=Counter)
    failed: dict[int, str] = field(default_factory=dict)
    """The violation of each seed that has one."""

    def lines(self) -> Iterator[str]:
        """The figures, and what each failed seed violates."""
        yield f"seeds run                        {self.seeds:>12,}"
        yield from lines_of(self.excuses)
        yield f"violations                       {len(self.failed):>12,}"
        yield f"CPU-seconds                      {self.cpu_s:>12,.1f}"
        for seed, violation in [*self.failed.items()][:FAILED_SHOWN]:
            yield f"  seed {seed}: {violation}"
            yield f"    again: make sim TIER={self.tier} SEED={seed}"


def run_tier(
    tier: str,
    seeds: Iterable[int],
    *,
    processes: int | None = None,
    on_found: Callable[[int, Found], None] = lambda _seed, _found: None,
) -> TierSummary:
    """Run seeds of a fast tier in as many processes as there are cores, and sum up.

    Args:
        tier: one of :data:`esp.simulation.tiers.TIERS`.
        seeds: which.
        processes: how many; None: one for each core.
        on_found: called with each seed and its outcome, in the order of the seeds.
    """
    summary = TierSummary(tier)
    context = multiprocessing.get_context("forkserver")
    with context.Pool(processes or os.cpu_count(), _prepare_quietly, maxtasksperchild=SEEDS_PER_PROCESS) as pool:
        for seed, found in pool.imap(partial(_run_of_tier, tier), seeds, chunksize=SEEDS_PER_TASK):
            summary.seeds += 1
            summary.cpu_s += found.cpu_s
            summary.excuses.update(found.excuses)
            if found.violation is not None:
                summary.failed[seed] = found.violation
            on_found(seed, found)
    return summary


def _prepare_quietly() -> None:
    """The fast tiers have no trace that takes in what the product logs."""
    logging.disable(logging.CRITICAL)
    prepare_process()


def _run_of_tier(tier: str, seed: int) -> tuple[int, Found]:
    return seed, RUNS[tier](seed, None)
