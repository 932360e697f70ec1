import ast
import pkgutil
from textwrap import dedent

import esp
from esp.simulation.coverage.functions import (
    ENTERED,
    LEFT_OUT,
    ROOMS,
    find_all_functions,
    find_functions,
    instrument,
    room_of,
)

SOURCE = dedent(
    '''
    """A module."""
    from typing import Protocol

    def plain(x):
        """Doubles."""
        return x * 2

    class Thing:
        """A thing."""

        @property
        def size(self):
            def inner():
                return 3
            return inner()

        async def wait(self):
            """Nothing to do."""

    class Shape(Protocol):
        def area(self): ...
    '''
)


def test_functions_with_code_are_found_by_qualified_name():
    assert list(find_functions(ast.parse(SOURCE), "m")) == ["m:plain", "m:Thing.size", "m:Thing.size.inner"]


def test_an_instrumented_module_does_the_same_and_notes_what_is_entered():
    tree = ast.parse(SOURCE)
    instrument(tree, "m")
    entered = {}
    names = {ENTERED: entered}
    exec(compile(tree, "m", "exec"), names)
    assert entered == {}
    assert names["plain"](4) == 8
    assert list(entered) == ["m:plain"]
    assert names["Thing"]().size == 3
    assert list(entered) == ["m:plain", "m:Thing.size", "m:Thing.size.inner"]
    assert names["plain"].__doc__ == "Doubles."


def test_every_function_belongs_to_a_room():
    functions = find_all_functions()
    assert {room_of(name) for name in functions} == set(ROOMS)
    assert len(functions) == len(set(functions))
    assert "esp.raft.node:RaftNode.propose" in functions


def test_every_package_below_a_room_and_every_one_of_brokers_is_a_room_or_left_out_for_a_reason():
    packages = {found.name for found in pkgutil.walk_packages(esp.__path__, "esp.") if found.ispkg}
    within = {name for name in packages if name.startswith(("esp.broker.", *(f"{room}." for room in ROOMS)))}
    assert within - {*ROOMS} == LEFT_OUT.keys()
    assert {*ROOMS} <= packages
    assert all(len(reason) > 20 for reason in LEFT_OUT.values())


def test_a_room_within_another_one_stands_before_it():
    """The first one that a name begins with is its room."""
    assert [
        (inner, outer) for place, outer in enumerate(ROOMS) for inner in ROOMS[place:] if inner.startswith(f"{outer}.")
    ] == []
