"""Bugs of self-repair: whom it gives up and when, how much at once, what it withdraws, what it may cost (REPAIR-1 to REPAIR-5)."""

from typing import Final

from tests.mutants.mutant import HELD_BACK_COPIES, Mutant

_NODES: Final = 5
"""So that copies have somewhere to go."""

REPAIR_MUTANTS: Final = (
    Mutant(
        "broker-is-given-up-at-once",
        "REPAIR-1 broken",
        "REPAIR-1",
        "esp.controller.self_repair",
        "if now_us - since_us >= duration_us)",
        "if duration_us >= 0)",
        node_count=_NODES,
    ),
    Mutant(
        "who-is-back-is-given-up",
        "REPAIR-1 broken",
        "REPAIR-1",
        "esp.controller.self_repair",
        "        self._since_us = {node: self._since_us.get(node, now_us) for node in away}\n",
        "        self._since_us.update({node: self._since_us.get(node, now_us) for node in away})\n",
        node_count=_NODES,
    ),
    Mutant(
        "lost-copies-stay-lost",
        "REPAIR-1 broken",
        "REPAIR-1",
        "esp.controller.self_repair",
        "            gone=tuple(node for node in self._given_up if held[node]),\n",
        "            gone=tuple(node for node in self._given_up if not held),\n",
        node_count=_NODES,
    ),
    Mutant(
        "newcomer-gets-nothing",
        "REPAIR-1 broken",
        "REPAIR-1",
        "esp.controller.self_repair",
        "            newcomers=tuple(node for node in targets if not held[node]),\n",
        "            newcomers=(),\n",
        node_count=_NODES,
    ),
    Mutant(
        "repair-knows-no-bound",
        "REPAIR-2 broken",
        "REPAIR-2",
        "esp.controller.self_repair",
        "self._settings.in_flight_max, _IN_FLIGHT_MAX) - ",
        "_IN_FLIGHT_MAX, _IN_FLIGHT_MAX) - 0 * ",
        node_count=_NODES,
    ),
    Mutant(
        "repair-is-not-withdrawn",
        "REPAIR-3 broken",
        "REPAIR-3",
        "esp.controller.self_repair",
        "            if gone and all(node in image.brokers and image.brokers[node].is_active for node in gone)\n",
        "            if gone and not gone\n",
        node_count=_NODES,
        kind=HELD_BACK_COPIES,
    ),
    Mutant(
        "copies-wait-for-who-is-gone",
        "REPAIR-5 broken",
        "REPAIR-5",
        "esp.controller.self_repair",
        "            if waits or any(node in draining",
        "            if any(node in draining",
        node_count=_NODES,
    ),
    Mutant(
        "what-waits-holds-up-the-rest",
        "REPAIR-5 broken",
        "REPAIR-5",
        "esp.controller.self_repair",
        "        going_on += not (waits or state.leader == NO_NODE)\n",
        "        going_on += 1\n",
        node_count=_NODES,
    ),
    Mutant(
        "others-moves-are-redirected",
        "REPAIR-5 broken",
        "REPAIR-5",
        "esp.controller.self_repair",
        "        if is_own:\n",
        "        if state.adding_replicas:\n",
        node_count=_NODES,
    ),
    Mutant(
        "draining-broker-gets-replicas",
        "REPAIR-1 broken",
        "REPAIR-1",
        "esp.controller.self_repair_plan",
        "            is_draining=is_draining(image, broker.node_id),\n",
        "            is_draining=False,\n",
        node_count=_NODES,
    ),
    Mutant(
        "repair-has-no-budget",
        "REPAIR-4 broken",
        "REPAIR-4",
        "esp.broker.replication.throttles",
        "            return self.repair\n",
        "            return None\n",
        node_count=_NODES,
    ),
)
