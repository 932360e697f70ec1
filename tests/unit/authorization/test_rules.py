"""The index of rules against a list of them that is searched from the beginning each time."""

from time import process_time

from hypothesis import given
from hypothesis import strategies as st

from esp.authorization.rules import AclIndex, Verdict
from esp.model.acl import AclBinding, AclOperation, AclPermission, PatternType, ResourceType
from esp.model.acl_hosts import find_host, find_matcher

PRINCIPALS = ["User:a", "User:b", "User:*", "Group:a", "Group:staff"]
HOSTS = ["*", "192.0.2.1", "192.0.2.0/24", "nowhere"]
OPERATIONS = list(AclOperation)

# Names that begin with one another, one of a single character, the wildcard, and one that begins with it (KAFKA-14265, KAFKA-7702).
NAMES = ["a", "ab", "abc", "b", "*", "*a", ""]

bindings = st.builds(
    AclBinding,
    st.sampled_from([ResourceType.TOPIC, ResourceType.GROUP]),
    st.sampled_from(NAMES[:-1]),
    st.sampled_from(PatternType),
    st.sampled_from(PRINCIPALS),
    st.sampled_from(HOSTS),
    st.sampled_from(OPERATIONS),
    st.sampled_from(AclPermission),
)
questions = st.tuples(
    st.sampled_from(["User:a", "User:b", "User:c", "User:*"]),
    st.sampled_from(["192.0.2.1", "192.0.2.2", "198.51.100.1"]).map(find_host),
    st.sampled_from([operation for operation in OPERATIONS if operation is not AclOperation.ALL]),
    st.sampled_from([ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER]),
    st.sampled_from(NAMES),
    st.lists(st.sampled_from(["Group:a", "Group:staff", "Group:other"]), max_size=3, unique=True).map(tuple),
)
changes = st.lists(st.one_of(bindings, st.integers(0, 29)), max_size=30)
"""A rule is added, and for a number one of those that are there is removed (CVE-2024-27309)."""

IMPLYING = {
    AclOperation.DESCRIBE: {AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER},
    AclOperation.DESCRIBE_CONFIGS: {AclOperation.ALTER_CONFIGS},
}


def applies(rule, resource_type, name):
    if rule.resource_type != resource_type:
        return False
    if rule.pattern_type is PatternType.PREFIXED:
        return name.startswith(rule.resource_name)
    return rule.resource_name in (name, "*")


def is_about(rule, principal, host, groups):
    matcher = find_matcher(rule.host)
    return rule.principal in (principal, "User:*", *groups) and matcher is not None and matcher(host)


def naive(rules, principal, host, operation, resource_type, name, groups):
    """Whether it is allowed, and whether the resource has a rule."""
    there = [rule for rule in rules if applies(rule, resource_type, name)]
    own = [rule for rule in there if is_about(rule, principal, host, groups)]
    denied = any(
        rule.permission is AclPermission.DENY and rule.operation in (operation, AclOperation.ALL) for rule in own
    )
    allowed = any(
        rule.permission is AclPermission.ALLOW
        and rule.operation in {operation, AclOperation.ALL, *IMPLYING.get(operation, ())}
        for rule in own
    )
    return allowed and not denied, bool(there)


def play(changes):
    index, rules = AclIndex(), []
    for change in changes:
        if isinstance(change, AclBinding):
            index.add(change)
            rules.append(change)
        elif rules:
            index.remove(rules.pop(change % len(rules)))
    return index, rules


@given(changes, st.lists(questions, min_size=1, max_size=20))
def test_the_index_answers_as_a_list_of_all_rules(changes, asked):
    index, rules = play(changes)
    for question in asked:
        verdict = index.judge(*question)
        assert (verdict.is_allowed, verdict.has_rules) == naive(rules, *question)
        assert verdict.rule is None or verdict.rule in rules


def prefix(name, principal="User:a", permission=AclPermission.ALLOW):
    return AclBinding(ResourceType.TOPIC, name, PatternType.PREFIXED, principal, "*", AclOperation.READ, permission)


def reads(rules, name, principal="User:a"):
    index, _ = play(rules)
    return index.judge(principal, find_host("192.0.2.1"), AclOperation.READ, ResourceType.TOPIC, name).is_allowed


def test_every_prefix_of_a_name_counts_whichever_came_first():
    prefixes = [prefix("a"), prefix("ab", "User:b"), prefix("abc", "User:c")]
    for rules in (prefixes, prefixes[::-1]):
        assert [reads(rules, "abcd", f"User:{user}") for user in "abcd"] == [True, True, True, False]
    denial = prefix("ab", permission=AclPermission.DENY)
    for rules in ([prefix("a"), denial, prefix("abc")], [prefix("abc"), denial, prefix("a")]):
        assert [reads(rules, name) for name in ("a", "ab", "abcd")] == [True, False, False]


def test_a_prefix_may_have_one_character_and_be_the_whole_name():
    assert [reads([prefix("a")], name) for name in ("a", "ab", "b")] == [True, True, False]


def test_a_removed_rule_takes_no_other_one_with_it():
    rules = [prefix("a"), prefix("a", "User:b"), prefix("ab", "User:b"), prefix("a", "User:b", AclPermission.DENY)]
    index, _ = play([*rules, 3])
    host = find_host("192.0.2.1")
    assert [
        index.judge(f"User:{user}", host, AclOperation.READ, ResourceType.TOPIC, "a").is_allowed for user in "ab"
    ] == [True, True]


@given(changes)
def test_an_index_without_rules_is_empty(changes):
    index, rules = play(changes)
    for rule in rules:
        index.remove(rule)
    assert not index._literal
    assert not index._prefixed
    assert not any(index._prefix_lengths.values())


@given(changes, questions)
def test_something_is_allowed_for_any_name_only_if_there_is_a_name(changes, question):
    principal, host, operation, resource_type, _, groups = question
    index, rules = play(changes)
    allowing = [
        rule
        for rule in rules
        if rule.resource_type == resource_type
        and rule.permission is AclPermission.ALLOW
        and rule.operation in (operation, AclOperation.ALL)
        and is_about(rule, principal, host, groups)
    ]
    # A name that begins like a rule's, and that no rule names: what a prefix or all names leave.
    names = [rule.resource_name for rule in allowing]
    names += [name + "~" for name in names] + ["~"]
    allowed = any(
        naive(rules, principal, host, operation, resource_type, name, groups)[0]
        for name in names
        if any(applies(rule, resource_type, name) for rule in allowing)
    )
    assert index.allows_any(principal, host, operation, resource_type, groups) == allowed


def test_the_rule_that_decided_is_named():
    index = AclIndex()
    allow = AclBinding(
        ResourceType.TOPIC, "t", PatternType.LITERAL, "User:a", "*", AclOperation.ALL, AclPermission.ALLOW
    )
    deny = allow._replace(resource_name="*", operation=AclOperation.WRITE, permission=AclPermission.DENY)
    index.add(allow)
    index.add(deny)
    question = ("User:a", None)
    assert index.judge(*question, AclOperation.READ, ResourceType.TOPIC, "t") == Verdict(True, allow, True)
    assert index.judge(*question, AclOperation.WRITE, ResourceType.TOPIC, "t") == Verdict(False, deny, True)
    assert index.judge(*question, AclOperation.READ, ResourceType.TOPIC, "u") == Verdict(False, None, True)
    assert index.judge(*question, AclOperation.READ, ResourceType.GROUP, "u") == Verdict(False, None, False)


def test_ten_thousand_rules_of_one_resource_and_user_go_as_fast_as_they_came():
    """They may all go with one request, and other requests wait for that."""
    rule = AclBinding(
        *(ResourceType.TOPIC, "t", PatternType.LITERAL, "User:a", "*", AclOperation.READ, AclPermission.ALLOW)
    )
    rules = [rule._replace(host=f"10.0.{number // 256}.{number % 256}") for number in range(10_000)]
    index = AclIndex()
    for each in rules:
        index.add(each)
    begun_s = process_time()
    for each in reversed(rules):
        index.remove(each)
    assert process_time() - begun_s < 0.5, "a search through all rules for each takes ten times as long"
    assert index.judge("User:a", None, AclOperation.READ, ResourceType.TOPIC, "t") == Verdict(False, None, False)
