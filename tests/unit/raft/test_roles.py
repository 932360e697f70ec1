"""Every pair of roles: legal or not."""

from esp.raft.roles import TRANSITIONS, Role

_LEGAL = {
    Role.UNATTACHED: "UNATTACHED PROSPECTIVE FOLLOWER",
    Role.PROSPECTIVE: "UNATTACHED PROSPECTIVE CANDIDATE FOLLOWER",
    Role.CANDIDATE: "UNATTACHED PROSPECTIVE LEADER FOLLOWER",
    Role.LEADER: "UNATTACHED FOLLOWER RESIGNED",
    Role.FOLLOWER: "UNATTACHED PROSPECTIVE FOLLOWER",
    Role.RESIGNED: "UNATTACHED PROSPECTIVE FOLLOWER",
}


def test_a_role_follows_another_only_where_kafka_lets_it():
    assert {role: {Role[name] for name in names.split()} for role, names in _LEGAL.items()} == TRANSITIONS


def test_only_a_candidate_becomes_leader_and_only_after_a_pre_vote():
    assert [role for role in Role if Role.LEADER in TRANSITIONS[role]] == [Role.CANDIDATE]
    assert [role for role in Role if Role.CANDIDATE in TRANSITIONS[role]] == [Role.PROSPECTIVE]
