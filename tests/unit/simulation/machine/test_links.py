from esp.simulation.machine.links import CLEAR, LinkCondition, LinkRule, Links


def links():
    changes = []
    made = Links(lambda: changes.append(1))
    return made, changes


def test_a_way_is_clear_until_a_rule_covers_it_and_after_it_was_lifted():
    made, changes = links()
    assert made.condition("a", "b") == CLEAR
    rule = made.add(LinkRule(LinkCondition(is_blocked=True), frozenset("a"), frozenset("b")))
    assert made.condition("a", "b").is_blocked
    assert made.condition("b", "a") == CLEAR, "one direction only"
    made.remove(rule)
    made.remove(rule)
    assert made.condition("a", "b") == CLEAR
    assert len(changes) == 2


def test_rules_of_one_way_add_up_and_are_lifted_one_by_one():
    made, _ = links()
    first = made.add(LinkRule(LinkCondition(delay_us=(1, 10), loss=0.5, bytes_per_s=100)))
    made.add(LinkRule(LinkCondition(delay_us=(2, 20), loss=0.5, bytes_per_s=50), frozenset("a")))
    assert made.condition("a", "b") == LinkCondition(delay_us=(3, 30), loss=0.75, bytes_per_s=50)
    made.remove(first)
    assert made.condition("a", "b") == LinkCondition(delay_us=(2, 20), loss=0.5, bytes_per_s=50)
    made.clear()
    assert made.condition("a", "b") == CLEAR


def test_a_host_always_reaches_itself():
    made, _ = links()
    made.add(LinkRule(LinkCondition(is_blocked=True)))
    assert made.condition("a", "a") == CLEAR
    assert made.condition("a", "b").is_blocked
