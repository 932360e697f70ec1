from uuid import UUID

from esp.model.ids import DirectoryId, NodeId
from esp.raft.voters import VoterKey
from tests.mutation.choosing import all_mutations
from tests.mutation.forking import can_put_in, find_changes, is_noticed

ONE, OTHER = (VoterKey(NodeId(1), DirectoryId(UUID(int=number))) for number in (1, 2))
[TURNED] = [
    mutation
    for mutation in all_mutations()
    if mutation.function == "VoterKey.is_same"
    and mutation.before == "self == other"
    and mutation.operator == "comparison turned"
]


def tells_keys_apart() -> int:
    return ONE.is_same(OTHER) or not ONE.is_same(ONE)


def test_a_mutation_is_noticed_in_a_fork_and_does_not_stay():
    assert can_put_in(TURNED)
    assert is_noticed(TURNED, tells_keys_apart)
    assert not is_noticed(TURNED, lambda: 0)
    assert not tells_keys_apart()


def test_what_raises_or_ends_the_process_has_noticed_it():
    for work in (lambda: 1 / 0, lambda: exit(0)):
        assert is_noticed(TURNED, work)


def test_a_text_that_stays_as_it_is_changes_no_function():
    assert find_changes(TURNED._replace(replacement=TURNED.before)) == []
    assert not is_noticed(TURNED._replace(replacement=TURNED.before), tells_keys_apart)


def test_of_nested_functions_the_outermost_has_other_code():
    nested = next(mutation for mutation in all_mutations() if mutation.function == "handle.have_grown")
    [(present, changed)] = find_changes(nested)
    assert present.co_name == changed.co_name == "handle"
