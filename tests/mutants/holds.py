"""Bugs of retention holds: something that a group has not read goes, and no cap allowed it."""

from typing import Final

from tests.mutants.mutant import HELD_RECORDS, Mutant

HOLD_MUTANTS: Final = (
    Mutant(
        "hold-of-a-deleted-group-stays",
        "HOLD-1 broken",
        "HOLD-1",
        "esp.replication.log_holds",
        "            elif name not in self._have_committed:\n",
        "            else:\n",
        kind=HELD_RECORDS,
    ),
    Mutant(
        "broken-hold-is-not-told",
        "HOLD-3 broken",
        "HOLD-3",
        "esp.broker.replication.retention",
        "                self._holds.on_broken(hosted.name, held.groups, front.broken)\n",
        "                pass\n",
        kind=HELD_RECORDS,
    ),
    Mutant(
        "followers-apply-time-and-size-to-held-logs",
        "HOLD-2 broken",
        "HOLD-2",
        "esp.broker.replication.retention_holds",
        "    return bool(hosted.log.settings.retention_hold_groups)\n",
        "    return bool(hosted.log.settings.retention_hold_groups) and hosted.leader is not None\n",
        kind=HELD_RECORDS,
    ),
    Mutant(
        "coordinator-that-says-nothing-frees-all",
        "HOLD-5 broken",
        "HOLD-5",
        "esp.replication.log_holds",
        "            return (GroupHold(UNHEARD, 0),)\n",
        "            return ()\n",
        kind=HELD_RECORDS,
    ),
    Mutant(
        "named-group-holds-nothing-before-it-commits",
        "HOLD-1 broken",
        "HOLD-1",
        "esp.replication.log_holds",
        "            elif name not in self._have_committed:\n",
        "            elif name in self._have_committed:\n",
        kind=HELD_RECORDS,
    ),
    Mutant(
        "hold-that-deleted-records-break-is-not-told",
        "HOLD-7 broken",
        "HOLD-7",
        "esp.broker.apis.delete_records",
        "{name: deletion.offset for name, deletion in deletions.items()}, by=DELETE_RECORDS",
        "{}, by=DELETE_RECORDS",
        kind=HELD_RECORDS,
    ),
    Mutant(
        "hold-that-a-deleted-topic-breaks-is-not-told",
        "HOLD-7 broken",
        "HOLD-7",
        "esp.broker.apis.delete_topics",
        "    _tell_broken_holds(services, before, held_logs, answer)\n",
        "",
        kind=HELD_RECORDS,
    ),
    Mutant(
        "offsets-that-a-deletion-takes-are-not-known",
        "HOLD-7 broken",
        "HOLD-7",
        "esp.broker.holds.deletions",
        "        elif held.start_offset < end_offset:\n",
        "        elif held.start_offset > end_offset:\n",
        kind=HELD_RECORDS,
    ),
)
