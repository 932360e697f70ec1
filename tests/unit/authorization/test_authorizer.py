import pytest

from esp.authorization.authorizer import ANSWERS_MAX, Authorizer
from esp.model.acl import AclBinding, AclOperation, AclPermission, PatternType, ResourceType

READ_T = AclBinding(ResourceType.TOPIC, "t", PatternType.LITERAL, "User:a", "*", AclOperation.READ, AclPermission.ALLOW)
QUESTION = ("User:a", "192.0.2.1", AclOperation.READ, ResourceType.TOPIC, "t")


def test_nothing_is_allowed_without_a_rule():
    assert not Authorizer().is_allowed(*QUESTION)
    assert Authorizer(allow_if_no_acl_found=True).is_allowed(*QUESTION)


def test_a_resource_with_a_rule_is_not_open_to_those_without():
    authorizer = Authorizer(allow_if_no_acl_found=True)
    authorizer.change([], [READ_T])
    assert authorizer.is_allowed(*QUESTION)
    assert not authorizer.is_allowed("User:b", *QUESTION[1:])
    assert authorizer.is_allowed("User:b", *QUESTION[1:-1], "u")


def test_a_super_user_may_do_what_is_denied():
    authorizer = Authorizer(["User:a"])
    authorizer.change([], [READ_T._replace(permission=AclPermission.DENY)])
    assert authorizer.is_allowed(*QUESTION)
    assert authorizer.is_super_user("User:a")
    assert not authorizer.is_super_user("User:b")


def test_an_answer_holds_until_the_rules_change():
    authorizer = Authorizer()
    authorizer.change([], [READ_T])
    version = authorizer.version
    assert authorizer.is_allowed(*QUESTION)
    authorizer.change([READ_T], [])
    assert authorizer.version > version
    assert not authorizer.is_allowed(*QUESTION)


def test_a_change_counts_as_a_whole():
    authorizer = Authorizer()
    everywhere = READ_T._replace(resource_name="*")
    authorizer.change([], [READ_T])
    authorizer.change([READ_T], [everywhere])
    assert authorizer.is_allowed(*QUESTION)


def test_remembered_answers_are_limited():
    authorizer = Authorizer()
    authorizer.change([], [READ_T])
    for number in range(ANSWERS_MAX + 10):
        assert not authorizer.is_allowed(*QUESTION[:-1], f"topic-{number}")
    assert len(authorizer._answers) <= ANSWERS_MAX
    assert authorizer.is_allowed(*QUESTION)


def test_answers_on_long_names_are_not_remembered():
    authorizer = Authorizer()
    authorizer.change([], [READ_T._replace(resource_name="n" * 256), READ_T._replace(resource_name="n" * 257)])
    for _ in range(2):
        for length in (255, 256, 257, 258):
            assert authorizer.is_allowed(*QUESTION[:-1], "n" * length) == (length in (256, 257))
    assert sorted(len(question[4]) for question in authorizer._answers) == [255, 256]


@pytest.mark.parametrize("operation", [AclOperation.WRITE, AclOperation.READ])
def test_some_name_is_enough_where_any_is_asked_for(operation):
    authorizer = Authorizer(["User:root"])
    authorizer.change([], [READ_T._replace(operation=operation)])
    asked = ("192.0.2.1", AclOperation.WRITE, ResourceType.TOPIC)
    assert authorizer.is_allowed_for_any("User:a", *asked) == (operation is AclOperation.WRITE)
    assert authorizer.is_allowed_for_any("User:root", *asked)
    assert not authorizer.is_allowed_for_any("User:b", *asked)


GROUP_READS = READ_T._replace(principal="Group:staff")
OF_BOB = ("User:b", *QUESTION[1:])
STAFF = ("Group:other", "Group:staff")


def test_a_rule_of_a_group_counts_for_its_members_alone():
    authorizer = Authorizer()
    authorizer.change([], [GROUP_READS])
    assert authorizer.is_allowed(*OF_BOB, STAFF)
    assert authorizer.is_allowed_for_any(*OF_BOB[:-1], STAFF)
    assert not authorizer.is_allowed(*OF_BOB)
    assert not authorizer.is_allowed_for_any(*OF_BOB[:-1], STAFF[:1])
    assert not authorizer.is_allowed("User:Group:staff", *OF_BOB[1:], STAFF[:1])
    authorizer.change([GROUP_READS], [])
    assert not authorizer.is_allowed(*OF_BOB, STAFF)


def test_a_denial_of_a_group_counts_more_than_what_its_member_may():
    authorizer = Authorizer()
    denied = GROUP_READS._replace(permission=AclPermission.DENY)
    authorizer.change([], [READ_T._replace(principal="User:b"), denied])
    assert not authorizer.is_allowed(*OF_BOB, STAFF)
    assert authorizer.is_allowed(*OF_BOB)


def test_a_group_of_super_users_may_do_everything():
    authorizer = Authorizer(["Group:staff"])
    assert authorizer.is_allowed(*OF_BOB, STAFF)
    assert authorizer.is_super_user("User:b", STAFF)
    assert not authorizer.is_allowed(*OF_BOB, STAFF[:1])
