"""Bugs of the rules of access, among them those that Kafka had."""

from typing import Final

from tests.mutants.mutant import GUARDED_NODES, Mutant

AUTHORIZATION_MUTANTS: Final = (
    Mutant(
        "kept-answers-outlive-the-rules",
        "AUTHZ-3 broken",
        "AUTHZ-3",
        "esp.authorization.authorizer",
        "            self._index.add(binding)\n        self._answers.clear()\n",
        "            self._index.add(binding)\n",
        kind=GUARDED_NODES,
    ),
    Mutant(
        "removed-rules-stay-in-force",
        "CVE-2024-27309 class",
        "AUTHZ-2",
        "esp.authorization.authorizer",
        "        for binding in removed:\n            self._index.remove(binding)\n",
        "",
        kind=GUARDED_NODES,
    ),
    Mutant(
        "allowing-rules-win",
        "AUTHZ-1 broken",
        "AUTHZ-1",
        "esp.authorization.rules",
        "                        return Verdict(False, binding, True)\n",
        "                        continue\n",
        kind=GUARDED_NODES,
    ),
    Mutant(
        "prefixes-are-not-of-whole-names",
        "KAFKA-7702 class",
        "AUTHZ-1",
        "esp.authorization.rules",
        "            if length <= len(name):\n",
        "            if length < len(name):\n",
        kind=GUARDED_NODES,
    ),
    Mutant(
        "removal-is-answered-before-it-counts-here",
        "AUTHZ-2 broken",
        "AUTHZ-2",
        "esp.broker.apis.delete_acls",
        "    await until_follows(services)\n",
        "",
        kind=GUARDED_NODES,
    ),
    Mutant(
        "rules-are-answered-before-they-count-here",
        "AUTHZ-2 broken",
        "AUTHZ-2",
        "esp.broker.apis.create_acls",
        "    await until_follows(services)\n",
        "",
        kind=GUARDED_NODES,
    ),
    Mutant(
        "the-gate-stands-open",
        "CVE-2018-1288 class",
        "AUTHZ-1",
        "esp.broker.authorization.gate",
        "                if needs and self._access.refuses(request.client, *needs):\n",
        "                if not needs and self._access.refuses(request.client, *needs):\n",
        kind=GUARDED_NODES,
    ),
    Mutant(
        "snapshots-leave-rules-out",
        "AUTHZ-4 broken",
        "AUTHZ-4",
        "esp.controller.snapshot_records",
        "    for acl_id, binding in image.acls.items():\n        yield acl_record(acl_id, binding)\n",
        "",
        kind=GUARDED_NODES,
    ),
)
