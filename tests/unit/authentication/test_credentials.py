from esp.authentication.credentials import CredentialLookup, NoCredentials
from esp.model.scram import ScramCredential
from tests.unit.authentication.logins import SHA_256, SHA_512, Users, lookup_of


def stand_in(users: Users, name: str = "nobody", mechanism=SHA_256, secret: bytes = b"s") -> ScramCredential:
    found = lookup_of(users, secret).find(name, mechanism)
    assert not found.is_real
    return found.credential


def test_user_s_own_credential_is_found() -> None:
    users = Users(("alice", SHA_256, "a"))
    found = lookup_of(users).find("alice", SHA_256)
    assert found.is_real
    assert found.credential == users.find("alice", SHA_256)


def test_stand_in_is_always_the_same_whichever_node_is_asked_and_differs_by_name_and_mechanism() -> None:
    users = Users(("alice", SHA_256, "a"), ("alice", SHA_512, "a"))
    assert stand_in(users) == stand_in(users, secret=b"another process")
    assert stand_in(users).salt != stand_in(users, "nobody2").salt
    assert stand_in(users).salt != stand_in(users, mechanism=SHA_512).salt


def test_salt_is_not_known_without_a_secret() -> None:
    assert stand_in(Users()).salt == stand_in(Users()).salt
    assert stand_in(Users()).salt != stand_in(Users(), secret=b"another").salt
    first, second = (Users(("alice", SHA_256, password)) for password in ("a", "b"))
    assert stand_in(first).salt != stand_in(second).salt, "the secret is made of the first user's keys"


def test_keys_of_a_stand_in_are_as_long_as_real_ones() -> None:
    for mechanism, size in ((SHA_256, 32), (SHA_512, 64)):
        made = stand_in(Users(), mechanism=mechanism)
        assert len(made.stored_key) == len(made.server_key) == size


def test_any_credential_of_a_user_is_found_and_for_others_one_of_the_usual_mechanism() -> None:
    users = Users(("alice", SHA_512, "a"), ("bob", SHA_512, "b"))
    mechanism, found = lookup_of(users).find_any("alice")
    assert mechanism is SHA_512
    assert found.is_real
    mechanism, found = lookup_of(users).find_any("nobody")
    assert mechanism is SHA_512, "hashing a password must take as long as for those that exist"
    assert not found.is_real
    assert CredentialLookup(NoCredentials(), b"s").find_any("nobody")[0] is SHA_256


def test_user_with_the_second_mechanism_alone_gets_a_stand_in_for_the_first() -> None:
    users = Users(("alice", SHA_512, "a"), ("bob", SHA_256, "b"))
    found = lookup_of(users).find("alice", SHA_256)
    assert not found.is_real
    assert found.credential == stand_in(users, "alice")
