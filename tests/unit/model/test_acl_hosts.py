import pytest

from esp.model.acl_hosts import find_host, find_matcher


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
