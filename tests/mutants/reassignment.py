"""Bugs of partitions that get other replicas: beginnings, ends and cancels of reassignments, and what brokers do about them."""

from typing import Final

from esp.simulation.tiers import PARTITION
from tests.mutants.mutant import Mutant

REASSIGNMENT_MUTANTS: Final = (
    Mutant(
        "reassignment-ends-without-those-that-stay",
        "KAFKA-15665",
        "REASSIGN-2",
        "esp.controller.replica_sets",
        "    return ReplicaSets(target) if set(target) <= set(isr) else None\n",
        "    return ReplicaSets(target) if set(target).intersection(sets.adding or target) <= set(isr) else None\n",
        tiers=(PARTITION,),
    ),
    Mutant(
        "reassignment-ends-when-somebody-is-in-sync",
        "REASSIGN-2 broken",
        "REASSIGN-2",
        "esp.controller.replica_sets",
        "    return ReplicaSets(target) if set(target) <= set(isr) else None\n",
        "    return ReplicaSets(target) if set(target) & set(isr) else None\n",
        tiers=(PARTITION,),
    ),
    Mutant(
        "reassignment-never-ends",
        "REASSIGN-2 broken",
        "REASSIGN-2",
        "esp.controller.replica_sets",
        "    return ReplicaSets(target) if set(target) <= set(isr) else None\n",
        "    return ReplicaSets(target) if set(target) == set(isr) else None\n",
        tiers=(PARTITION,),
    ),
    Mutant(
        "beginning-takes-those-that-go",
        "REASSIGN-5 broken",
        "REASSIGN-5",
        "esp.controller.reassignment",
        "    return _plan(image, topic, state, sets, state.isr, Election.ONLINE)\n",
        "    isr = tuple(node for node in state.isr if node in target) or state.isr\n"
        "    sets = sets._replace(replicas=(*target, *(set(sets.removing) & set(isr))), "
        "removing=tuple(set(sets.removing) & set(isr)))\n"
        "    return _plan(image, topic, state, sets, isr, Election.ONLINE)\n",
        tiers=(PARTITION,),
    ),
    Mutant(
        "another-target-takes-what-is-in-sync",
        "REASSIGN-5 broken",
        "REASSIGN-5",
        "esp.controller.replica_sets",
        "    kept = complete.intersection(state.adding_replicas) - wanted\n",
        "    kept = complete.intersection(())\n",
        tiers=(PARTITION,),
    ),
    Mutant(
        "cancel-leaves-fewer-than-the-minimum",
        "REASSIGN-3 broken",
        "REASSIGN-3",
        "esp.controller.reassignment",
        "        if takes_copies and len(isr) < minimum:\n",
        "        if takes_copies and len(isr) < 1:\n",
        tiers=(PARTITION,),
    ),
    Mutant(
        "leader-epoch-stays-when-a-replica-leaves",
        "ISR-8 broken",
        "ISR-8",
        "esp.controller.partition_change",
        "state.leader or leaves or rot_matters else",
        "state.leader or rot_matters else",
        tiers=(PARTITION,),
    ),
    Mutant(
        "data-goes-before-the-end",
        "KAFKA-14616 class",
        "REASSIGN-4",
        "esp.broker.replication.host",
        "                if self._node_id in state.replicas:\n",
        "                if self._node_id in state.target_replicas:\n",
    ),
    Mutant(
        "new-replica-counts-at-once",
        "REASSIGN-1 broken",
        "REASSIGN-1",
        "esp.controller.reassignment",
        "    return _plan(image, topic, state, sets, state.isr, Election.ONLINE)\n",
        "    return _plan(image, topic, state, sets, (*state.isr, *(node for node in target if node not in state.isr)), "
        "Election.ONLINE)\n",
    ),
)
