"""The functions of the rooms that simulated runs should enter, by name, and modules whose functions note that they were entered.

A function is named by its module and its qualified name: ``esp.raft.node:RaftNode.poll``. Lambdas do not count, nor do functions without
code: those of protocols, and ones that do nothing. A property and its setter count as one.
"""

import ast
import importlib.machinery
import importlib.util
import os
from collections.abc import Iterator, Mapping
from typing import Final

ROOMS: Final = (
    "esp.raft",
    "esp.controller",
    "esp.storage.compaction",
    "esp.storage",
    "esp.replication",
    "esp.groups.consumer",
    "esp.groups.share",
    "esp.groups",
    "esp.share.coordinator",
    "esp.share",
    "esp.transactions",
    "esp.broker.raft.wire",
    "esp.broker.raft",
    "esp.broker.cluster_view",
    "esp.broker.controller_client",
    "esp.broker.controller",
    "esp.broker.replication",
    "esp.broker.groups",
    "esp.broker.share",
    "esp.broker.share_states",
    "esp.broker.coordination",
    "esp.broker.transactions",
    "esp.broker.data_path",
    "esp.broker.apis",
    "esp.broker",
)
"""The packages whose functions are counted: the cores, and what drives them. A package within another is a room of its own."""

LEFT_OUT: Final[Mapping[str, str]] = {
    "esp.broker.authentication": "log-ins: INV-CREDENTIAL holds them against the metadata, and drives the exchanges itself",
    "esp.broker.authorization": "the judge of a request: INV-AUTHZ holds answers against the rules",
    "esp.broker.configs": "texts about settings for those that ask",
    "esp.broker.connections": "frames of real sockets, for which the simulated network has its own",
    "esp.broker.holds": "what coordinators say of consumers that hold records; INV-HOLD looks at what retention takes",
    "esp.broker.metrics": "figures for Prometheus, which no simulated node serves",
    "esp.broker.quotas": "the measure of a request, which INV-QUOTA holds against the quotas",
    "esp.broker.turns": "the shares of the loop's time, which is virtual in a run",
}
"""The packages of brokers that are no rooms, and why: they drive no core."""

ENTERED: Final = "_entered_in_simulation"
"""The name by which an instrumented module knows the notes."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


def room_of(name: str) -> str:
    """The room of a function, by its name."""
    module = name.partition(":")[0]
    return next(room for room in (module, package_of(module)) if room in ROOMS)


def package_of(module: str) -> str:
    """The name of the package in which a module is."""
    return module.rpartition(".")[0]


def find_modules(room: str) -> Iterator[tuple[str, str]]:
    """The modules of a room, by name, with the paths of their sources; in order."""
    found = importlib.util.find_spec(room)
    assert found is not None, f"there is no package {room}"
    for directory in found.submodule_search_locations or ():
        for entry in sorted(os.listdir(directory)):
            if entry.endswith(".py"):
                stem = entry.removesuffix(".py")
                yield (room if stem == "__init__" else f"{room}.{stem}"), os.path.join(directory, entry)


def find_all_functions() -> list[str]:
    """The names of all functions of all rooms, in order."""
    names: dict[str, None] = {}
    for room in ROOMS:
        for module, path in find_modules(room):
            source = importlib.machinery.SourceFileLoader(module, path).get_data(path)
            names.update(dict.fromkeys(find_functions(ast.parse(source), module)))
    return list(names)


def find_functions(tree: ast.Module, module: str) -> Mapping[str, list[Function]]:
    """The functions of a module that have code, by their names."""
    found: dict[str, list[Function]] = {}

    def look(node: ast.AST, outer: str) -> None:
        for child in ast.iter_child_nodes(node):
            inner = outer
            if isinstance(child, Function | ast.ClassDef):
                inner = f"{outer}{child.name}."
            if isinstance(child, Function) and _code_of(child):
                found.setdefault(f"{module}:{inner[:-1]}", []).append(child)
            look(child, inner)

    look(tree, "")
    return found


def instrument(tree: ast.Module, module: str) -> None:
    """Let each function of a module begin with a note of its name in the mapping that the module knows as :data:`ENTERED`."""
    for name, functions in find_functions(tree, module).items():
        for function in functions:
            first = _code_of(function)[0]
            note = ast.parse(f"{ENTERED}[{name!r}] = None").body[0]
            for node in ast.walk(note):
                ast.copy_location(node, first)
            function.body.insert(function.body.index(first), note)


def _code_of(function: Function) -> list[ast.stmt]:
    """The statements that do something: neither a docstring nor an ellipsis."""
    return [
        statement
        for statement in function.body
        if not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant))
    ]
