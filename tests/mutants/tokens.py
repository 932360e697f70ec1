"""Bugs of delegation tokens."""

from typing import Final

from tests.mutants.mutant import TOKENS, Mutant

TOKEN_MUTANTS: Final = (
    Mutant(
        "expired-tokens-log-in",
        "Kafka: until swept",
        "TOKEN-1",
        "esp.broker.authentication.image_tokens",
        "        if left_ms <= 0 or kind != USER:\n",
        "        if kind != USER:\n",
        kind=TOKENS,
    ),
    Mutant(
        "sessions-outlive-their-tokens",
        "KAFKA-9241 class",
        "TOKEN-1",
        "esp.authentication.scram",
        "lifetime_ms=token.left_ms",
        "lifetime_ms=0",
        kind=TOKENS,
    ),
    Mutant(
        "removed-tokens-log-in",
        "TOKEN-1 broken",
        "TOKEN-1",
        "esp.controller.replay",
        "        self._draft.change_delegation_tokens().pop(record.token_id, None)\n",
        "        self._draft.change_delegation_tokens().get(record.token_id)\n",
        kind=TOKENS,
    ),
    Mutant(
        "removed-tokens-outlive-a-snapshot",
        "TOKEN-1 broken",
        "TOKEN-1",
        "esp.broker.raft.loader",
        "self._cpu.run(_load, self._empty, ",
        'self._cpu.run(_load, __import__("dataclasses").replace(self._empty, delegation_tokens=self.image.delegation_tokens), ',
        kind=TOKENS,
    ),
    Mutant(
        "snapshots-leave-tokens-out",
        "TOKEN-1 broken",
        "TOKEN-1",
        "esp.controller.snapshot_records",
        "    yield from map(delegation_token_record, image.delegation_tokens.values())\n",
        "",
        kind=TOKENS,
    ),
    Mutant(
        "each-node-sweeps-its-own-tokens",
        "TOKEN-1 broken",
        "TOKEN-1",
        "esp.broker.authentication.image_tokens",
        "        if left_ms <= 0 or kind != USER:\n",
        "        if left_ms <= 0:\n            self._image().delegation_tokens.pop(token_id)\n"
        "        if left_ms <= 0 or kind != USER:\n",
        kind=TOKENS,
    ),
    Mutant(
        "living-tokens-are-swept",
        "TOKEN-1 broken",
        "TOKEN-1",
        "esp.controller.delegation_tokens",
        "        if token.is_expired(now_ms):\n            expired.append(token)\n",
        "        if now_ms - token.issue_ms > 2_000:\n            expired.append(token)\n",
        kind=TOKENS,
    ),
    Mutant(
        "renewals-go-beyond-the-longest-life",
        "TOKEN-2 broken",
        "TOKEN-2",
        "esp.controller.delegation_tokens",
        "expiry_ms=min(token.max_ms, wanted_ms, LATEST_MS)",
        "expiry_ms=min(wanted_ms, LATEST_MS)",
        kind=TOKENS,
    ),
    Mutant(
        "any-user-renews-any-token",
        "TOKEN-2 broken",
        "TOKEN-2",
        "esp.controller.delegation_tokens",
        "    if not token.may_be_renewed_by(principal):\n",
        "    if not principal:\n",
        kind=TOKENS,
    ),
    Mutant(
        "a-new-secret-ends-tokens",
        "Kafka: expire all first",
        "TOKEN-3",
        "esp.model.delegation_passwords",
        "dict.fromkeys((terms.key, terms.accepted_key))",
        "(terms.key,)",
        kind=TOKENS,
    ),
    Mutant(
        "tokens-are-answered-before-they-count-here",
        "Kafka: 0.2 s later",
        "TOKEN-1",
        "esp.broker.apis.token_requests",
        "    if answer.error_code is ErrorCode.none:\n        await until_follows(services)\n",
        "",
        kind=TOKENS,
    ),
    Mutant(
        "users-are-unknown-while-a-node-starts",
        "AUTHN-4 broken",
        "CRED-1",
        "esp.broker.authentication.login_parts",
        "        self._lookup.use(\n"
        "            ImageCredentials(image), token_credentials(image, self.env.clock.wall_ms, tokens, self._secret)\n"
        "        )\n",
        "        self._lookup = CredentialLookup(\n"
        "            ImageCredentials(image),\n"
        "            self._secret,\n"
        "            token_credentials(image, self.env.clock.wall_ms, tokens, self._secret),\n"
        "        )\n",
        first=38,
        kind=TOKENS,
    ),
    Mutant(
        "tokens-that-let-in-are-not-described-yet",
        "TOKEN-1 broken",
        "TOKEN-1",
        "esp.broker.apis.describe_delegation_token",
        "services.in_force().delegation_tokens",
        "services.metadata.image.delegation_tokens",
        is_gap=True,
        covered_by="tests/unit/broker/apis/test_delegation_tokens.py::"
        "test_a_token_that_lets_its_bearer_in_is_described_while_replicas_apply_older_metadata",
    ),
)
