import pytest

from esp.controller.scram_credentials import CredentialDeletion, CredentialUpsertion, decide_alter_scram_credentials
from esp.model.errors import ErrorCode
from esp.model.scram import ScramMechanism
from esp.model.scram_keys import make_credential, salted_password
from tests.unit.controller.samples import Cluster

SHA_256, SHA_512 = ScramMechanism
TWICE = (ErrorCode.duplicate_resource, "A user credential cannot be altered twice in the same request")


def added(user, mechanism=SHA_256, iterations=4096, salt=b"salt", salted=b"salted"):
    return CredentialUpsertion(user, mechanism, iterations, salt, salted)


def alter(cluster, *changes):
    deletions = [change for change in changes if isinstance(change, CredentialDeletion)]
    upsertions = [change for change in changes if isinstance(change, CredentialUpsertion)]
    outcomes = cluster.decide(decide_alter_scram_credentials(cluster.image, deletions, upsertions))
    return {user: refusal and (refusal.code, refusal.message) for user, refusal in outcomes}


def test_the_credential_is_that_of_the_password():
    cluster = Cluster()
    salted = salted_password(SHA_512, "secret", b"salt", 5000)
    assert alter(cluster, added("alice", SHA_512, 5000, b"salt", salted)) == {"alice": None}
    assert cluster.image.scram_credentials == {("alice", SHA_512): make_credential(SHA_512, "secret", b"salt", 5000)}
    assert cluster.delta.changed_scram_credentials == {("alice", SHA_512)}


def test_credentials_of_a_user_come_and_go_by_their_mechanisms():
    cluster = Cluster()
    alter(cluster, added("alice", SHA_256), added("bob", SHA_256))
    alter(cluster, added("alice", SHA_512))
    assert alter(cluster, CredentialDeletion("alice", SHA_256), added("bob", SHA_256, 8192)) == {
        "alice": None,
        "bob": None,
    }
    assert {key: each.iterations for key, each in cluster.image.scram_credentials.items()} == {
        ("alice", SHA_512): 4096,
        ("bob", SHA_256): 8192,
    }
    assert cluster.delta.changed_scram_credentials == {("alice", SHA_256), ("bob", SHA_256)}


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        (added(""), ErrorCode.unacceptable_credential, "Username must not be empty"),
        (added("a", 0), ErrorCode.unsupported_sasl_mechanism, "Unknown SCRAM mechanism"),
        (added("a", 3), ErrorCode.unsupported_sasl_mechanism, "Unknown SCRAM mechanism"),
        (added("a", iterations=4095), ErrorCode.unacceptable_credential, "Too few iterations"),
        (added("a", iterations=16385), ErrorCode.unacceptable_credential, "Too many iterations"),
        (added("a", salted=b""), ErrorCode.unacceptable_credential, "Salted password must not be empty"),
        (CredentialDeletion("", 1), ErrorCode.unacceptable_credential, "Username must not be empty"),
        (CredentialDeletion("a", -1), ErrorCode.unsupported_sasl_mechanism, "Unknown SCRAM mechanism"),
        (
            CredentialDeletion("a", 1),
            ErrorCode.resource_not_found,
            "Attempt to delete a user credential that does not exist",
        ),
    ],
)
def test_a_refused_change_does_not_keep_the_others(change, code, message):
    cluster = Cluster()
    assert alter(cluster, change, added("other", iterations=16384)) == {change.user: (code, message), "other": None}
    assert list(cluster.image.scram_credentials) == [("other", SHA_256)]


@pytest.mark.parametrize("often", [2, 3])
def test_a_user_is_changed_once_in_a_request(often):
    cluster = Cluster()
    alter(cluster, added("alice"), added("bob"))
    before = cluster.image.scram_credentials
    assert alter(cluster, *[CredentialDeletion("alice", 1)] * often) == {"alice": TWICE}
    assert alter(cluster, CredentialDeletion("alice", 1), *[added("alice")] * (often - 1)) == {"alice": TWICE}
    assert alter(cluster, *[added("bob", mechanism) for mechanism in (1, 2, 1)[:often]]) == {"bob": TWICE}
    assert cluster.image.scram_credentials == before


def test_a_change_shows_no_key():
    told = repr(added("alice", salt=b"the salt", salted=b"the salted password"))
    assert "alice" in told
    assert "the salt" not in told
