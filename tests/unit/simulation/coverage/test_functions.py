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
    package_of,
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


def test_every_module_of_cores_and_of_brokers_is_in_a_room_or_left_out_for_a_reason():
    trees = {".".join(room.split(".")[:2]) for room in ROOMS}
    homes = {
        found.name if found.ispkg else package_of(found.name)
        for found in pkgutil.walk_packages(esp.__path__, "esp.")
        if ".".join(found.name.split(".")[:2]) in trees
    }
    assert homes - {*ROOMS} == LEFT_OUT.keys()
    assert {*ROOMS} <= homes
    assert all(len(reason) > 20 for reason in LEFT_OUT.values())


def test_a_function_of_a_package_within_a_room_is_of_the_inner_room():
    assert room_of("esp.broker.app:BrokerNode.start") == "esp.broker"
    assert room_of("esp.broker.raft.driver:RaftDriver.open") == "esp.broker.raft"
    assert room_of("esp.broker.raft.wire.frames:pack") == "esp.broker.raft.wire"
    assert room_of("esp.broker:main") == "esp.broker"
