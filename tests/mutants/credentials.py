"""Bugs of users' credentials."""

from typing import Final

from tests.mutants.mutant import USERS, Mutant

CREDENTIAL_MUTANTS: Final = (
    Mutant(
        "users-are-answered-before-they-count-here",
        "AUTHZ-2 broken",
        "CRED-1",
        "esp.broker.apis.alter_user_scram_credentials",
        "    await until_follows(services)\n",
        "",
        kind=USERS,
    ),
    Mutant(
        "removed-users-log-in",
        "CRED-1 broken",
        "CRED-1",
        "esp.controller.replay",
        "        del credentials[key]\n",
        "",
        kind=USERS,
    ),
    Mutant(
        "old-passwords-stay",
        "CRED-1 broken",
        "CRED-1",
        "esp.controller.replay",
        "        self._draft.change_scram_credentials()[self._credential_key(record)] = ScramCredential(\n"
        "            salt=record.salt,\n"
        "            stored_key=record.stored_key,\n"
        "            server_key=record.server_key,\n"
        "            iterations=record.iterations,\n"
        "        )\n",
        "        self._draft.change_scram_credentials().setdefault(\n"
        "            self._credential_key(record),\n"
        "            ScramCredential(record.salt, record.stored_key, record.server_key, record.iterations),\n"
        "        )\n",
        kind=USERS,
    ),
    Mutant(
        "one-user-of-a-request-changes",
        "CRED-1 broken",
        "CRED-1",
        "esp.controller.scram_credentials",
        "    return Decision(tuple(accepted.values()), list(refusals.items()))\n",
        "    return Decision(tuple(accepted.values())[:1], list(refusals.items()))\n",
        kind=USERS,
    ),
    Mutant(
        "snapshots-leave-users-out",
        "CRED-1 broken",
        "CRED-1",
        "esp.controller.snapshot_records",
        "    for (user, mechanism), credential in image.scram_credentials.items():\n"
        "        yield scram_credential_record(user, mechanism, credential)\n",
        "",
        kind=USERS,
    ),
    Mutant(
        "a-mechanism-takes-the-credential-of-another",
        "CRED-1 broken",
        "CRED-1",
        "esp.broker.authentication.image_credentials",
        "        return self._image().scram_credentials.get((user, mechanism))\n",
        "        return next((each for (name, _), each in self._image().scram_credentials.items() if name == user), None)\n",
        kind=USERS,
    ),
    Mutant(
        "a-log-in-goes-by-the-credential-of-its-beginning",
        "CRED-1 broken, as in Kafka",
        "CRED-1",
        "esp.authentication.scram",
        "        is_in_force = self._lookup.is_in_force(self._user, self._mechanism, found)\n",
        "        is_in_force = found.is_real\n",
        kind=USERS,
    ),
    Mutant(
        "users-of-the-start-log-in-for-ever",
        "CRED-1 broken",
        "CRED-1",
        "esp.broker.authentication.login_parts",
        "            ImageCredentials(image), token_credentials(",
        "            ImageCredentials(lambda first=image(): first), token_credentials(",
        kind=USERS,
    ),
    Mutant(
        "old-passwords-let-in-where-they-did-before",
        "CRED-1 broken",
        "CRED-1",
        "esp.broker.authentication.image_credentials",
        "        return self._image().scram_credentials.get((user, mechanism))\n",
        '        kept = self.__dict__.setdefault("kept", {})\n'
        "        found = self._image().scram_credentials.get((user, mechanism))\n"
        "        if found is not None:\n"
        "            kept.setdefault((user, mechanism), found)\n"
        "        return kept.get((user, mechanism))\n",
        kind=USERS,
    ),
)
