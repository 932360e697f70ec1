"""Rules about protection."""

import time

import pytest

from esp.doctor.protection import (
    HashedPassword,
    LivingToken,
    NodeFiles,
    OwnProtection,
    Protection,
    RevocationList,
    ShownCertificate,
)
from esp.model.acl import WILDCARD, AclBinding, AclOperation, AclPermission, PatternType, ResourceType
from esp.model.ids import NodeId
from tests.unit.doctor.snapshots import hits, places, snapshot

DAY_S = 86_400
SAFE = OwnProtection(
    {"CLIENTS": "SASL_SSL", "CONTROLLER": "SSL"}, frozenset({"PLAIN"}), ("User:admin",), has_authorizer=True
)


def protected(own=SAFE, **more):
    return snapshot(1, [], protection=Protection({NodeId(1): own}, **more))


def rule(
    name="orders", principal="User:alice", operation=AclOperation.READ, *, host=WILDCARD, prefix=False, deny=False
):
    return AclBinding(
        ResourceType.TOPIC,
        name,
        PatternType.PREFIXED if prefix else PatternType.LITERAL,
        principal,
        host,
        operation,
        AclPermission.DENY if deny else AclPermission.ALLOW,
    )


@pytest.mark.parametrize(
    ("days", "name"),
    [(-3, "week"), (0, "week"), (6, "week"), (7, "month"), (29, "month"), (30, None), (300, None)],
)
def test_certificates_that_end_soon_are_found_once(days, name):
    shown = ShownCertificate(NodeId(1), "h:9093", days * DAY_S + 60)
    found = {
        each: places(f"certificate-ends-this-{each}", protected(certificates=(shown,))) for each in ("week", "month")
    }
    assert found == {each: ["broker 1"] if each == name else [] for each in ("week", "month")}


@pytest.mark.parametrize(
    ("days", "name"),
    [(-3, "week"), (0, "week"), (6, "week"), (7, "month"), (29, "month"), (30, None)],
)
def test_revocation_lists_that_end_soon_are_found_once(days, name):
    files = NodeFiles(NodeId(1), revocations=(RevocationList("/etc/esp/trust.pem", "CN=CA", days * DAY_S + 60),))
    found = {each: places(f"revocations-end-this-{each}", protected(files=files)) for each in ("week", "month")}
    assert found == {each: ["broker 1"] if each == name else [] for each in ("week", "month")}


def test_secrets_that_others_may_read_are_found():
    files = NodeFiles(NodeId(1), readable=("/etc/esp/node.pem",))
    (hit,) = hits("readable-secret", protected(files=files))
    assert (hit.detail, hit.remedy) == ("/etc/esp/node.pem", "`chmod o-r /etc/esp/node.pem`, then change the secret")


@pytest.mark.parametrize(
    ("known", "is_told"),
    [
        ({"passwords": (HashedPassword("alice", "SCRAM-SHA-256", 16384),)}, True),
        ({"own": OwnProtection({}, mechanisms=frozenset(("SCRAM-SHA-512",)))}, True),
        ({"own": OwnProtection({}, secrets=("ssl.keystore.password",))}, True),
        ({"own": OwnProtection({}, mechanisms=frozenset(("PLAIN", "OAUTHBEARER")))}, False),
    ],
)
def test_a_metadata_log_with_passwords_that_others_may_read_is_found(known, is_told):
    files = NodeFiles(NodeId(1), readable_metadata=("/data/__cluster_metadata-0",))
    found = [(hit.detail, hit.remedy) for hit in hits("readable-metadata", protected(files=files, **known))]
    remedy = "`chmod -R o-rwx /data/__cluster_metadata-0`, then give each user a new password"
    assert found == ([("/data/__cluster_metadata-0", remedy)] if is_told else [])
    assert hits("readable-metadata", protected(files=NodeFiles(NodeId(1)), **known)) == []


def test_files_are_judged_only_where_the_doctor_looks_at_them():
    for name in ("readable-secret", "readable-metadata", "revocations-end-this-week", "revocations-end-this-month"):
        assert hits(name, protected()) == []


def test_a_certificate_that_has_ended_is_told_as_such():
    shown = ShownCertificate(NodeId(1), "h:9093", -60)
    (hit,) = hits("certificate-ends-this-week", protected(certificates=(shown,)))
    assert hit.detail == "the certificate at h:9093 has ended"


@pytest.mark.parametrize(
    ("life_days", "hours_left", "told"),
    [
        (7, 6 * 24, None),
        (7, 43, None),
        (7, 41, "ends in 41 hours"),
        (90, 8 * 24, None),
        (90, 6 * 24 + 1, "ends in 6 days"),
        (1, 0, "ends in 0 hours"),
        (1, -1, None),
    ],
)
def test_a_token_is_told_in_the_last_quarter_or_week_of_its_life(life_days, hours_left, told):
    token = LivingToken("id", "User:alice", life_days * DAY_S, hours_left * 3600)
    found = [hit.detail for hit in hits("token-ends-soon", protected(tokens=(token,)))]
    assert found == ([] if told is None else [f"token id of User:alice {told}"])


def test_a_password_with_fewer_iterations_than_our_tools_use_is_found():
    passwords = (HashedPassword("alice", "SCRAM-SHA-256", 16384), HashedPassword("bob", "SCRAM-SHA-512", 4096))
    (hit,) = hits("few-iterations", protected(passwords=passwords))
    assert hit.detail == "bob: SCRAM-SHA-512 with 4,096 iterations"
    assert hit.remedy == "`esp users rotate bob`"


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("anonymous-super-user", {"super_users": ("User:admin", "User:ANONYMOUS")}),
        ("secret-in-metadata", {"secrets": ("listener.name.x.plain.sasl.jaas.config",)}),
        ("open-listener", {"protocols": {"CLIENTS": "SASL_SSL", "OLD": "PLAINTEXT"}}),
        ("readable-passwords", {"protocols": {"CLIENTS": "SASL_PLAINTEXT"}}),
        ("open-resources", {"is_open_without_rule": True}),
    ],
)
def test_a_broker_whose_settings_leave_a_door_open_is_found(name, change):
    assert places(name, protected()) == []
    assert places(name, protected(SAFE._replace(**change))) == ["broker 1"]


def test_what_protects_nothing_yet_is_no_finding():
    plain = OwnProtection(
        {"PLAINTEXT": "PLAINTEXT", "CONTROLLER": "PLAINTEXT"},
        super_users=("User:ANONYMOUS",),
        is_open_without_rule=True,
    )
    for name in ("anonymous-super-user", "open-listener", "open-resources", "readable-passwords"):
        assert places(name, protected(plain)) == []
    scram = SAFE._replace(protocols={"CLIENTS": "SASL_PLAINTEXT"}, mechanisms=frozenset({"SCRAM-SHA-512"}))
    assert places("readable-passwords", protected(scram)) == []
    tokens = scram._replace(mechanisms=scram.mechanisms | {"OAUTHBEARER"})
    assert places("readable-passwords", protected(tokens)) == ["broker 1"]


@pytest.mark.parametrize(
    ("changes", "is_esp", "is_found"),
    [
        ({"host": "10.0.0.1"}, True, False),
        ({"host": "10.0.0.0/8"}, True, False),
        ({"host": "10.0.0.0/8"}, False, True),
        ({"host": "broker1.example"}, True, True),
        ({"host": ""}, False, True),
        ({"principal": "alice"}, True, True),
        ({"principal": "User:*"}, True, False),
        ({"principal": "Group:admins"}, True, False),
        ({"principal": "Role:admins"}, True, True),
        ({"principal": "Role:admins"}, False, False),
        ({"principal": "User:"}, True, True),
        ({"principal": "Group:*"}, True, True),
        ({"principal": "User:admin"}, True, False),
        ({"principal": "User:admin", "deny": True}, True, True),
        ({"name": "orders*"}, True, True),
        ({"name": "ord*", "prefix": True}, True, True),
        ({"name": ".", "prefix": True}, True, False),
        ({"name": "*"}, True, False),
        ({"operation": AclOperation.CLUSTER_ACTION}, True, True),
        ({"operation": AclOperation.ALL}, True, False),
    ],
)
def test_a_rule_that_no_client_matches_is_found(changes, is_esp, is_found):
    found = places("rule-for-nobody", protected(rules=(rule(**changes),), matches_networks=is_esp))
    assert found == (["cluster"] if is_found else [])


def test_a_rule_of_a_group_is_for_nobody_where_no_broker_takes_groups_from_tokens():
    rules = (rule(principal="Group:admins"), rule())
    (hit,) = hits("rule-for-nobody", protected(rules=rules, has_groups=False))
    assert hit.detail.startswith("Group:admins may READ topic orders: no broker takes groups from tokens")


@pytest.mark.parametrize(
    ("allowed", "denied", "is_found"),
    [
        ({}, {}, True),
        ({}, {"principal": "User:*", "operation": AclOperation.ALL, "name": WILDCARD}, True),
        ({}, {"name": "ord", "prefix": True}, True),
        ({"name": "order-", "prefix": True}, {"name": "ord", "prefix": True}, True),
        ({"name": "ord", "prefix": True}, {"name": "orders"}, False),
        ({"name": WILDCARD}, {"name": "ord", "prefix": True}, False),
        ({"operation": AclOperation.ALL}, {"operation": AclOperation.READ}, False),
        ({}, {"host": "10.0.0.1"}, False),
        ({"host": "10.0.0.1"}, {"host": "10.0.0.0/8"}, True),
        ({"host": "10.0.0.0/8"}, {"host": "10.0.0.1"}, False),
        ({}, {"principal": "User:bob"}, False),
        ({}, {"name": "other"}, False),
    ],
)
def test_a_permission_that_a_denial_covers_is_found(allowed, denied, is_found):
    rules = (rule(**allowed), rule(deny=True, **denied))
    assert len(hits("rule-shadowed", protected(rules=rules))) == is_found


def test_a_shadowed_rule_is_told_with_the_one_that_shadows_it():
    (hit,) = hits("rule-shadowed", protected(rules=(rule(), rule("ord", prefix=True, deny=True, principal="User:*"))))
    assert hit.detail == "User:alice may READ topic orders: User:* may not READ topic ord*"


@pytest.mark.parametrize("deny", [False, True])
@pytest.mark.parametrize(
    ("narrow", "wide", "is_found"),
    [
        ({}, {"name": "ord", "prefix": True}, True),
        ({}, {"name": WILDCARD, "operation": AclOperation.ALL, "principal": "User:*"}, True),
        ({"host": "10.0.0.1"}, {"host": "10.0.0.0/8"}, True),
        ({"host": "10.0.0.1"}, {"host": "::ffff:10.0.0.1"}, True),
        ({}, {"principal": "User:bob"}, False),
        ({}, {"operation": AclOperation.WRITE}, False),
        ({}, {"name": "orders-", "prefix": True}, False),
        ({"name": WILDCARD}, {"name": "o", "prefix": True}, True),
        ({"name": WILDCARD}, {"name": "o", "prefix": True, "operation": AclOperation.ALL}, False),
    ],
)
def test_a_rule_that_a_wider_one_repeats_is_found_once(narrow, wide, is_found, deny):
    rules = (rule(deny=deny, **narrow), rule(deny=deny, **wide))
    assert len(hits("rule-repeated", protected(rules=rules))) == is_found
    assert len(hits("rule-repeated", protected(rules=rules[::-1]))) == is_found


def test_rules_that_differ_repeat_nothing():
    rules = (rule(), rule(operation=AclOperation.DESCRIBE), rule(deny=True), rule(principal="User:*", host="10.0.0.1"))
    assert hits("rule-repeated", protected(rules=rules)) == []


def test_where_networks_are_texts_they_cover_no_address():
    rules = (rule(host="10.0.0.1"), rule(host="10.0.0.0/8", deny=True))
    assert hits("rule-shadowed", protected(rules=rules, matches_networks=False)) == []


def test_a_denial_to_a_user_that_some_broker_holds_to_the_rules_is_none_for_nobody():
    protection = Protection(
        {NodeId(1): SAFE, NodeId(2): SAFE._replace(super_users=())}, rules=(rule(principal="User:admin", deny=True),)
    )
    assert hits("rule-for-nobody", snapshot(1, [], protection=protection)) == []


def test_ten_thousand_rules_of_one_user_are_compared_with_few_others_each():
    rules = tuple(rule(f"topic-{number}-{kind}", prefix=bool(number % 2)) for number in range(5_000) for kind in "ab")
    begun_s = time.process_time()
    assert hits("rule-repeated", protected(rules=rules)) == []
    assert time.process_time() - begun_s < 10
