import base64
import io

import pytest

from esp.cli.node.added_users import SALT_BYTES, parse_added_user, read_added_users
from esp.controller.snapshot_records import scram_credential_record
from esp.model.errors import OperatorError
from esp.model.scram import ScramMechanism
from esp.model.scram_keys import make_credential, salted_password
from tests.unit.controller.samples import SeededRandom

SHA_256, SHA_512 = ScramMechanism
SALT = base64.b64encode(b"the salt").decode()


def parsed(text):
    return parse_added_user(text, SeededRandom())


def expected(user, mechanism, password, iterations=16384, salt=b"the salt"):
    return scram_credential_record(user, mechanism, make_credential(mechanism, password, salt, iterations))


@pytest.mark.parametrize(
    ("text", "record"),
    [
        (f"SCRAM-SHA-256=[name=alice,password=secret,salt={SALT}]", expected("alice", SHA_256, "secret")),
        (
            f' SCRAM-SHA-512=[salt="{SALT}",iterations=8192,password="a, b",name=bob] ',
            expected("bob", SHA_512, "a, b", 8192),
        ),
        (f'SCRAM-SHA-256=[name=a=b,password=c=d"e,salt={SALT}]', expected("a=b", SHA_256, 'c=d"e')),
        (f'SCRAM-SHA-256=[name=a,password=""",salt={SALT}]', expected("a", SHA_256, '"""')),
    ],
)
def test_kafkas_words_are_read(text, record):
    assert parsed(text) == record


def test_a_salt_is_random_where_none_is_given():
    salts = {parse_added_user("SCRAM-SHA-256=[name=a,password=b]", SeededRandom(seed)).salt for seed in range(3)}
    assert [len(salt) for salt in salts] == [SALT_BYTES] * 3


def test_a_salted_password_is_enough():
    salted = base64.b64encode(salted_password(SHA_512, "secret", b"the salt", 5000)).decode()
    text = f"SCRAM-SHA-512=[name=alice,iterations=5000,salt={SALT},saltedpassword={salted}]"
    assert parsed(text) == expected("alice", SHA_512, "secret", 5000)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("SCRAM-SHA-256", "no equals sign"),
        ("SCRAM-SHA-1=[name=a,password=b]", "mechanism SCRAM-SHA-1 is not supported"),
        ("SCRAM-SHA-256=name=a,password=b", "in [ and ]"),
        ("SCRAM-SHA-256=[password=hidden]", "no name"),
        ("SCRAM-SHA-256=[name=,password=hidden]", "no name"),
        ("SCRAM-SHA-256=[name=a]", "no password"),
        ("SCRAM-SHA-256=[name=a,password=]", "the password is empty"),
        (f"SCRAM-SHA-256=[name=a,salt={SALT}]", "no password"),
        (f"SCRAM-SHA-256=[name=a,saltedpassword={SALT}]", "and no salt"),
        ("SCRAM-SHA-256=[name=a,password=hidden,salt=hidden!]", "salt is no base64"),
        ("SCRAM-SHA-256=[name=a,password=hidden,iterations=4095]", "from 4096 to 16384"),
        ("SCRAM-SHA-256=[name=a,password=hidden,iterations=16385]", "from 4096 to 16384"),
        ("SCRAM-SHA-256=[name=a,password=hidden,iterations=many]", "from 4096 to 16384"),
        ("SCRAM-SHA-256=[name=a,password=hidden,nope=b]", "the name of component 3 is none of"),
        ("SCRAM-SHA-256=[name=a,password=my,hidden=b]", "the name of component 3 is none of"),
        ("SCRAM-SHA-256=[name=a,password=hidden,hidden]", "component 3 has no equals sign"),
    ],
)
def test_another_form_is_refused_without_a_word_of_the_secret(text, problem):
    with pytest.raises(OperatorError) as caught:
        parsed(text)
    assert problem in caught.value.problem
    assert "hidden" not in str(caught.value)


def test_users_are_read_from_standard_input_too():
    lines = io.StringIO("SCRAM-SHA-256=[name=alice,password=a]\n\nSCRAM-SHA-512=[name=alice,password=b]\n")
    records = read_added_users(["SCRAM-SHA-256=[name=bob,password=c]", "-"], lines, SeededRandom())
    assert [(record.name, record.mechanism) for record in records] == [("bob", 1), ("alice", 1), ("alice", 2)]


def test_two_credentials_of_one_mechanism_are_refused():
    with pytest.raises(OperatorError, match="user alice has two SCRAM-SHA-256 credentials"):
        read_added_users(["SCRAM-SHA-256=[name=alice,password=a]"] * 2, io.StringIO(), SeededRandom())
