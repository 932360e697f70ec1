"""Rules as Kafka applies them; that they are Kafka's is seen in tests/conformance/test_java_names.py."""

import time

import pytest

from esp.model.principal_mapping import PrincipalMapping

DUKE = "CN=Duke,OU=ServiceUsers,O=Org,C=US"


@pytest.mark.parametrize(
    ("rules", "name", "expected"),
    [
        ("DEFAULT", DUKE, DUKE),
        ("", DUKE, None),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/", DUKE, "Duke"),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L,DEFAULT", DUKE, "duke"),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1@x/U", DUKE, "DUKE@X"),
        ("RULE:^CN=other$/x/, RULE:^CN=(.*?),.*$/$1/", DUKE, "Duke"),
        ("RULE:^CN=other$/x/,DEFAULT", DUKE, DUKE),
        ("RULE:^CN=other$/x/", DUKE, None),
        ("RULE:CN=Duke/x/", DUKE, None),
        ("RULE:.*/x/", "abc", "xx"),
        ("RULE:^(.*)$/$2/", "abc", "$2"),
        (r"RULE:^(a)(b)c$/\$$2/", "abc", "$b"),
    ],
)
def test_the_first_rule_that_matches_the_whole_name_counts(rules, name, expected):
    assert PrincipalMapping(rules).name_of(name) == expected


@pytest.mark.parametrize(
    "rules", ["deny", "RULE:a", "RULE:a/b/X", "DEFAULT/L", "RULE:a/b/LU", "RULE:(/b/", "RULE:(?=a)/b/"]
)
def test_what_is_no_rule_is_refused(rules):
    with pytest.raises(ValueError, match=r"it is no rule|RE2 cannot read"):
        PrincipalMapping(rules)


def test_no_name_takes_long():
    began_s = time.process_time()
    assert PrincipalMapping("RULE:^CN=(a+)+$/$1/").name_of("CN=" + "a" * 5_000 + "b") is None
    assert time.process_time() - began_s < 1
