import pytest

from esp.model.acl_hosts import find_host, find_matcher, is_host_within


@pytest.mark.parametrize(
    ("rule", "peer"),
    [
        ("*", "192.0.2.1"),
        ("*", "no address"),
        ("192.0.2.1", "192.0.2.1"),
        ("10.0.0.0/8", "10.200.3.4"),
        ("10.1.2.3/8", "10.200.3.4"),
        ("2001:db8::1", "2001:DB8:0:0:0:0:0:1"),
        ("2001:db8::/32", "2001:db8:5::1"),
        ("192.0.2.1", "::ffff:192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.0/120", "192.0.2.77"),
    ],
)
def test_a_rule_is_about_its_hosts(rule, peer):
    assert find_matcher(rule)(find_host(peer))


@pytest.mark.parametrize(
    ("rule", "peer"),
    [
        ("192.0.2.1", "192.0.2.2"),
        ("10.0.0.0/8", "11.0.0.1"),
        ("10.0.0.0/8", "2001:db8::1"),
        ("2001:db8::1", "192.0.2.1"),
        ("0.0.0.0/0", "no address"),
    ],
)
def test_a_rule_is_about_no_other_hosts(rule, peer):
    assert not find_matcher(rule)(find_host(peer))


@pytest.mark.parametrize("rule", ["", "not-an-ip", "10.0.0.0/33", "10.0.0", "example.com", "**"])
def test_a_host_that_no_peer_can_have_has_no_test(rule):
    assert find_matcher(rule) is None


@pytest.mark.parametrize(
    ("narrow", "wide", "is_within"),
    [
        ("10.1.2.3", "*", True),
        ("*", "*", True),
        ("10.1.2.3", "10.0.0.0/8", True),
        ("10.1.0.0/16", "10.0.0.0/8", True),
        ("::ffff:10.1.2.3", "10.0.0.0/8", True),
        ("2001:db8::1", "2001:db8::/32", True),
        ("*", "0.0.0.0/0", False),
        ("10.0.0.0/8", "10.1.0.0/16", False),
        ("2001:db8::1", "10.0.0.0/8", False),
        ("10.1.2.3", "example.com", False),
        ("example.com", "10.0.0.0/8", False),
    ],
)
def test_a_host_is_within_another_one_if_that_matches_all_its_peers(narrow, wide, is_within):
    assert is_host_within(narrow, wide) is is_within
