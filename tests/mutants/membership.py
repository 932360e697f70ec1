"""Bugs of changing members: voters that come and go, brokers that are unregistered or never come back, leaders elected on demand."""

from typing import Final

from esp.simulation.tiers import PARTITION, QUORUM
from tests.mutants.mutant import Mutant

MEMBERSHIP_MUTANTS: Final = (
    Mutant(
        "voter-is-not-caught-up",
        "RAFT-42 broken",
        "RAFT-42",
        "esp.raft.voter_changes",
        "                if self._is_caught_up(state, change.request):\n",
        "                if state.replicas is not None:\n",
        tiers=(QUORUM,),
    ),
    Mutant(
        "removed-leader-stays",
        "RAFT-43 broken",
        "RAFT-43",
        "esp.raft.voter_changes",
        "            self._leading.resign(state)  # RAFT-43\n",
        "            pass\n",
    ),
    Mutant(
        "preferred-leader-need-not-be-in-sync",
        "ELECT-3 broken",
        "ELECT-3",
        "esp.controller.partition_change",
        "        first = (replicas[0], *first)\n",
        "        return _Elected(replicas[0], clean=True)\n",
    ),
    Mutant(
        "unregistered-broker-stays-in-sync",
        "ISR-7 broken",
        "ISR-7",
        "esp.controller.brokers",
        "    return Decision((*changes, UnregisterBrokerRecord(",
        "    return Decision((*(), UnregisterBrokerRecord(",
    ),
    Mutant(
        "last-copy-is-unregistered",
        "BRK-10 broken",
        "BRK-10",
        "esp.controller.brokers",
        "    _check_last_copies(image, node_id)\n",
        "    pass\n",
    ),
    Mutant(
        "another-minimum-leaves-the-eligible",
        "KAFKA-16540",
        "ELR-3",
        "esp.controller.configs",
        "    if kind in (TOPIC_RESOURCE, BROKER_RESOURCE) and current.get(MIN_INSYNC_REPLICAS) != left.get(MIN_INSYNC_REPLICAS):\n",
        "    if kind == BROKER_RESOURCE and current.get(MIN_INSYNC_REPLICAS) != left.get(MIN_INSYNC_REPLICAS):\n",
    ),
    Mutant(
        "greater-minimum-keeps-the-epoch",
        "ELR-3 broken",
        "ELR-3",
        "esp.controller.configs",
        "    records += plan_epochs_of_raised_minimums(image, records)\n",
        "",
        tiers=(PARTITION,),
    ),
    Mutant(
        "lesser-minimum-counts-before-the-election",
        "ELR-3 broken",
        "ELR-3",
        "esp.broker.replication.host",
        "            hosted.log.settings = settings\n",
        "            hosted.log.settings = settings\n            self._roles.update_settings(hosted)\n",
        is_gap=True,
    ),
    Mutant(
        "allowed-election-waits",
        "ELECT-1.5 broken",
        "ELECT-1",
        "esp.broker.controller.driver",
        "            self._term.elect_unclean_soon()\n",
        "            pass\n",
    ),
    Mutant(
        "silent-broker-is-never-fenced",
        "BRK-6 broken",
        "BRK-6",
        "esp.controller.broker_sessions",
        "for node_id, session in self._sessions.items() if session.deadline_us <= now_us\n",
        "for node_id, session in self._sessions.items() if session.deadline_us < 0\n",
    ),
    Mutant(
        "moved-voter-stays-where-it-was",
        "KIP-853 broken",
        "RAFT-41",
        "esp.raft.voter_changes",
        "            self._append(state.change, voters.with_voter(Voter(request.voter, request.endpoints)))\n",
        "            self._append(state.change, voters)\n",
        first=15,  # with a voter that moves and does not lead then
    ),
    Mutant(
        "late-timer-renews-all-sessions",
        "BRK-6 broken",
        "BRK-6",
        "esp.controller.broker_sessions",
        "            if not session.is_renewed:\n",
        "            if session.deadline_us:\n",
    ),
    Mutant(
        "newcomer-replaces-the-living",
        "BRK-1 broken",
        "BRK-1",
        "esp.controller.brokers",
        "    return is_connected or not (has_its_directory and existing.endpoints == registration.endpoints)\n",
        "    return not (has_its_directory and existing.endpoints == registration.endpoints)\n",
        first=28,  # with a second process on a copy of the disk
    ),
)
