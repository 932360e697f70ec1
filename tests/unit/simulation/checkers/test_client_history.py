"""The checker of histories catches each anomaly, and nothing else."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esp.simulation.checkers.client_history import Outcome, Read, Sent, check

SENT = [Sent("a", n, Outcome.ACKED, 0, 2 * n) for n in range(3)] + [
    Sent("b", n, Outcome.ACKED, 0, 2 * n + 1) for n in range(3)
]
READ = [
    Read(0, 0, "a", 0),
    Read(0, 1, "b", 0),
    Read(0, 2, "a", 1),
    Read(0, 3, "b", 1),
    Read(0, 4, "a", 2),
    Read(0, 5, "b", 2),
]


def kinds(anomalies: list[str]) -> set[str]:
    return {anomaly.partition(":")[0] for anomaly in anomalies}


def test_correct_history_has_no_anomaly() -> None:
    assert check(SENT, READ) == []


def test_record_of_unknown_outcome_may_be_there_or_not() -> None:
    unknown = [s._replace(outcome=Outcome.UNKNOWN, offset=None) for s in SENT]
    assert check(unknown, READ) == []
    assert check(unknown, READ[:3]) == []


def test_lost_record_is_caught() -> None:
    assert check(SENT, READ[:-1]) == ["lost: b#2, acknowledged at 0@5"]


def test_duplicated_record_is_caught() -> None:
    assert check(SENT, [*READ, Read(0, 6, "b", 2)]) == ["duplicated: b#2 stands 2 times"]


def test_reordered_records_of_a_key_are_caught() -> None:
    swapped = [*READ[:2], Read(0, 2, "a", 2), READ[3], Read(0, 4, "a", 1), READ[5]]
    assert kinds(check(SENT, swapped)) == {"misplaced", "reordered"}
    unplaced = [s._replace(offset=None) for s in SENT]
    assert check(unplaced, swapped) == ["reordered: a#1 at offset 4 stands after #2"]


def test_key_in_two_partitions_is_caught() -> None:
    moved = [*READ[:-1], Read(1, 5, "b", 2)]
    assert kinds(check(SENT, moved)) == {"misplaced", "reordered"}
    unplaced = [s._replace(offset=None) for s in SENT]
    assert check(unplaced, moved) == ["reordered: b stands in partitions [0, 1]"]


def test_record_elsewhere_than_acknowledged_is_caught() -> None:
    moved = [*READ[:-1], Read(0, 9, "b", 2)]
    assert check(SENT, moved) == ["misplaced: nothing at 0@5, where b#2 was acknowledged"]


def test_record_that_nobody_sent_is_caught() -> None:
    assert check(SENT, [*READ, Read(0, 6, "c", 0)]) == ["invented: c#0 at 0@6"]


def test_refused_record_in_the_log_is_caught() -> None:
    assert check([*SENT[:-1], SENT[-1]._replace(outcome=Outcome.REFUSED)], READ) == ["refused but written: b#2 at 0@5"]


def test_offsets_that_go_back_are_caught() -> None:
    assert kinds(check(SENT, [*READ, READ[0]])) == {"backward", "duplicated"}


@st.composite
def correct_histories(draw: st.DrawFn) -> tuple[list[Sent], list[Read]]:
    """Keys spread over partitions, some of unknown outcome that are missing, with gaps between offsets."""
    sent: list[Sent] = []
    read: list[Read] = []
    numbers: dict[str, int] = {}
    offsets = [0, 0, 0]
    for key in draw(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=40)):
        partition = ord(key) % 3
        number = numbers.get(key, -1) + 1
        numbers[key] = number
        outcome = draw(st.sampled_from(Outcome))
        written = outcome is Outcome.ACKED or (outcome is Outcome.UNKNOWN and draw(st.booleans()))
        if written:
            offsets[partition] += draw(st.integers(0, 2))
            read.append(Read(partition, offsets[partition], key, number))
        sent.append(Sent(key, number, outcome, partition, offsets[partition] if written else None))
        offsets[partition] += written
    return sent, read


@given(correct_histories())
def test_no_correct_history_is_blamed(history: tuple[list[Sent], list[Read]]) -> None:
    assert check(*history) == []


@pytest.mark.parametrize("damage", ["lose", "double", "swap"])
@given(history=correct_histories(), seed=st.integers(0, 2**32))
def test_damage_to_any_history_is_caught(damage: str, history: tuple[list[Sent], list[Read]], seed: int) -> None:
    sent, read = history
    rng = random.Random(seed)
    acked = {(s.key, s.number) for s in sent if s.outcome is Outcome.ACKED}
    places = [i for i, r in enumerate(read) if (r.key, r.number) in acked]
    if not places:
        return
    place = rng.choice(places)
    victim = read[place]
    if damage == "lose":
        broken, expected = [*read[:place], *read[place + 1 :]], "lost"
    elif damage == "double":
        broken, expected = [*read, victim._replace(offset=1 + max(r.offset for r in read))], "duplicated"
    else:
        others = [i for i, r in enumerate(read) if r.key == victim.key and i != place]
        if not others:
            return
        other = rng.choice(others)
        broken, expected = list(read), "reordered"
        broken[place] = victim._replace(number=read[other].number)
        broken[other] = read[other]._replace(number=victim.number)
    assert expected in kinds(check(sent, broken))
