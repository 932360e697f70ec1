import uuid
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from esp.model.acl import AclBinding, AclOperation, AclPermission, PatternType, ResourceType
from esp.model.acl_filter import ANY, MATCH, AclFilter
from esp.model.acl_selector import AclSelector

NAMES = ("a", "ab", "abc", "b", "*")
PRINCIPALS = ("User:a", "User:b,c", "User:*")
HOSTS = ("*", "10.0.0.1")

RULES = st.builds(
    AclBinding,
    st.sampled_from(ResourceType),
    st.sampled_from(NAMES),
    st.sampled_from(PatternType),
    st.sampled_from(PRINCIPALS),
    st.sampled_from(HOSTS),
    st.sampled_from([AclOperation.ALL, AclOperation.READ]),
    st.sampled_from(AclPermission),
)

FILTERS = st.builds(
    AclFilter,
    st.sampled_from([ANY, *ResourceType]),
    st.sampled_from([None, *NAMES, "abcd", ""]),
    st.sampled_from([ANY, MATCH, *PatternType]),
    st.sampled_from([None, *PRINCIPALS]),
    st.sampled_from([None, *HOSTS]),
    st.sampled_from([ANY, AclOperation.ALL, AclOperation.READ]),
    st.sampled_from([ANY, *AclPermission]),
)


def ids(rules):
    random = Random(7)
    return {uuid.UUID(int=random.getrandbits(128)): rule for rule in rules}


@settings(max_examples=300)
@given(st.lists(RULES, max_size=30, unique=True), st.lists(FILTERS, min_size=1, max_size=5))
def test_a_filter_selects_the_rules_that_it_matches(rules, filters):
    acls = ids(rules)
    selector = AclSelector(acls)
    for acl_filter in filters:
        expected = {acl_id: rule for acl_id, rule in acls.items() if acl_filter.matches(rule)}
        assert selector.select(acl_filter) == expected


class Counting(dict):
    """Rules that count how often each is looked at."""

    looks = 0

    def items(self):
        self.looks += 1
        return super().items()


def test_filters_that_give_the_same_fields_look_at_each_rule_once():
    rule = AclBinding(
        ResourceType.TOPIC, "t", PatternType.LITERAL, "User:a", "*", AclOperation.READ, AclPermission.ALLOW
    )
    acls = Counting(ids([rule._replace(principal=f"User:{number}") for number in range(50)]))
    selector = AclSelector(acls)
    for number in range(100):
        found = selector.select(AclFilter(ANY, None, ANY, f"User:{number}", None, ANY, ANY))
        assert len(found) == (number < 50)
    assert acls.looks == 1
