"""Bugs of the quotas of clients."""

from typing import Final

from tests.mutants.mutant import METERED_NODES, Mutant

QUOTA_MUTANTS: Final = (
    Mutant(
        "throttled-connections-are-read-on",
        "QUOTA-3 broken",
        "QUOTA-3",
        "esp.broker.connections.session",
        "            or self._hold.muted_until_us > 0\n",
        "",
        kind=METERED_NODES,
    ),
    Mutant(
        "milliseconds-are-taken-for-microseconds",
        "QUOTA-3 broken",
        "QUOTA-3",
        "esp.broker.quotas.client_meter",
        "for_time_ms)\n        self._client.hold.mute(now_us + throttle_ms * 1000)\n",
        "for_time_ms)\n        self._client.hold.mute(now_us + throttle_ms)\n",
        kind=METERED_NODES,
    ),
    Mutant(
        "what-is-counted-later-is-forgotten",
        "QUOTA-2 broken",
        "QUOTA-2",
        "esp.quotas.limited_rate",
        "            self._pending = pending\n",
        "",
        kind=METERED_NODES,
    ),
    Mutant(
        "each-connection-has-a-rate-of-its-own",
        "QUOTA-2 broken",
        "QUOTA-2",
        "esp.broker.quotas.uses",
        "        used = self._used.get((key, sharers))\n        if used is not None:\n            return used\n",
        "        return make()\n",
        kind=METERED_NODES,
    ),
    Mutant(
        "the-client-id-counts-before-the-user",
        "QUOTA-4 broken",
        "QUOTA-4",
        "esp.quotas.limits",
        "            (user_and_client(user, client_id), (user, client_id)),\n",
        "            (client_alone(client_id), (None, client_id)),\n            (user_and_client(user, client_id), (user, client_id)),\n",
        kind=METERED_NODES,
    ),
    Mutant(
        "quotas-are-answered-before-they-count-here",
        "QUOTA-1 broken",
        "QUOTA-1",
        "esp.broker.apis.alter_client_quotas",
        "        await until_follows(services)\n",
        "        pass\n",
        kind=METERED_NODES,
    ),
    Mutant(
        "removed-quotas-stay",
        "QUOTA-1 broken",
        "QUOTA-1",
        "esp.controller.draft",
        "            quotas.pop(key, None)\n",
        "            pass\n",
        kind=METERED_NODES,
    ),
    Mutant(
        "snapshots-leave-quotas-out",
        "QUOTA-1 broken",
        "QUOTA-1",
        "esp.controller.snapshot_records",
        "    for entity, quotas in image.client_quotas.items():\n",
        "    for entity, quotas in ():\n",
        kind=METERED_NODES,
    ),
)
