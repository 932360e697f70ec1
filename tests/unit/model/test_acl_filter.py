import pytest

from esp.model.acl import AclBinding, AclOperation, AclPermission, PatternType, ResourceType
from esp.model.acl_filter import ANY, MATCH, AclFilter
from esp.model.errors import ApiError, ErrorCode

EVERYTHING = AclFilter(ANY, None, ANY, None, None, ANY, ANY)


def rule(name="orders", pattern=PatternType.LITERAL):
    return AclBinding(ResourceType.TOPIC, name, pattern, "User:alice", "*", AclOperation.READ, AclPermission.ALLOW)


@pytest.mark.parametrize("pattern", PatternType)
def test_an_open_filter_selects_every_rule(pattern):
    assert EVERYTHING.matches(rule(pattern=pattern))


@pytest.mark.parametrize(
    "change",
    [
        {"resource_type": ResourceType.GROUP},
        {"resource_name": "order"},
        {"pattern_type": PatternType.PREFIXED},
        {"principal": "User:bob"},
        {"host": "192.0.2.1"},
        {"operation": AclOperation.ALL},
        {"permission": AclPermission.DENY},
    ],
)
def test_every_field_has_to_be_the_same(change):
    assert not EVERYTHING._replace(**change).matches(rule())
    same = {name: getattr(rule(), name) for name in change}
    assert EVERYTHING._replace(**same).matches(rule())


@pytest.mark.parametrize(
    ("name", "pattern", "literal", "match"),
    [
        ("orders", PatternType.LITERAL, True, True),
        ("*", PatternType.LITERAL, False, True),
        ("ord", PatternType.PREFIXED, False, True),
        ("orders", PatternType.PREFIXED, True, True),
        ("orders2", PatternType.PREFIXED, False, False),
        ("ord", PatternType.LITERAL, False, False),
    ],
)
def test_a_match_selects_what_applies_to_the_name(name, pattern, literal, match):
    named = EVERYTHING._replace(resource_name="orders")
    assert named.matches(rule(name, pattern)) == literal
    assert named._replace(pattern_type=MATCH).matches(rule(name, pattern)) == match


@pytest.mark.parametrize("field", ["resource_type", "pattern_type", "operation", "permission"])
@pytest.mark.parametrize("number", [0, 100, -1])
def test_numbers_without_a_meaning_are_refused(field, number):
    with pytest.raises(ApiError) as refused:
        EVERYTHING._replace(**{field: number}).check()
    assert refused.value.code is ErrorCode.invalid_request
    EVERYTHING.check()
