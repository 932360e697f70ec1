"""What no code may do that runs on the simulator, where one seed is to give one run: found in the syntax tree, with what to do instead.

Only what can be seen in one module is found. Import contracts keep whole libraries out of the pure cores; this holds for every layer that
the simulator runs, and for calls of libraries that are imported rightly.
"""

import ast
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

_CLOCK: Final = "ask the Clock seam"
_RANDOM: Final = "draw from the Random seam, or from a stream of the seed"
_THREADS: Final = "threads run when they like: give work to the Cpu seam"
_TASK_SET: Final = (
    "it holds a set of tasks, in the order of their addresses: keep tasks in a list or a dict and await them one by one"
)
_OUTSIDE: Final = "reach the outside through the Env's seams"
_SET_ORDER: Final = "the order of a set follows addresses and hash seeds: sort it, or keep a dict with None for values"
_HASHES: Final = "hashes of strings differ from process to process: use a checksum"
_ADDRESSES: Final = "addresses and hashes differ from run to run: order by what things are"

BANNED: Final[Mapping[str, str]] = {
    "time": _CLOCK,
    "datetime.datetime.now": _CLOCK,
    "datetime.datetime.utcnow": _CLOCK,
    "datetime.datetime.today": _CLOCK,
    "datetime.date.today": _CLOCK,
    "random": _RANDOM,
    "secrets": _RANDOM,
    "uuid.uuid1": _RANDOM,
    "uuid.uuid4": _RANDOM,
    "os.urandom": _RANDOM,
    "os.getrandom": _RANDOM,
    "threading": _THREADS,
    "concurrent": _THREADS,
    "multiprocessing": _THREADS,
    "asyncio.to_thread": _THREADS,
    "asyncio.wait": _TASK_SET,
    "asyncio.as_completed": _TASK_SET,
    "asyncio.TaskGroup": _TASK_SET,
    "asyncio.all_tasks": _TASK_SET,
    "weakref": "what it holds goes when the garbage collector comes: end things in order",
    "socket": _OUTSIDE,
    "selectors": _OUTSIDE,
    "signal": _OUTSIDE,
    "subprocess": _OUTSIDE,
    "open": _OUTSIDE,
}
"""By dotted name; a module's name stands for everything in it."""

ALLOWED: Final = ("random.Random", "time.struct_time")
"""Parts of banned modules that do nothing but what they are told."""

SELF_HASHING: Final = ("int", "bool", "UUID", "NodeId", "TopicId", "DirectoryId", "ErrorCode", "ApiKey")
"""Types whose values hash to numbers that they hold: a set of them has one order in every run."""

_ORDERLESS: Final = ("sorted", "set", "frozenset", "any", "all", "sum", "len", "min", "max")
"""Calls whose result does not tell in what order they went through their argument."""

_ORDERED: Final = ("list", "tuple", "enumerate", "iter", "zip", "map", "filter", "reversed", "deque", "dict.fromkeys")
"""Calls whose result does."""

_SET_METHODS: Final = ("union", "intersection", "difference", "symmetric_difference")


class Finding(NamedTuple):
    """A call or a loop by which one seed would not give one run."""

    line: int
    what: str
    remedy: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.what}: {self.remedy}"


def find_indeterminism(source: str, *, has_virtual_loop: bool = False) -> list[Finding]:
    """All that one module says of it, in the order of the source.

    Args:
        source: of the module.
        has_virtual_loop: whether the loop that it knows is the simulator's: then the loop's time is as good as a clock's.
    """
    nodes = list(ast.walk(ast.parse(source)))
    return sorted({*_find_banned(nodes, has_virtual_loop), *_find_hashes(nodes), *_find_set_order(nodes)})


# --- names -----------------------------------------------------------------------------------------------------------------------


def _find_banned(nodes: Sequence[ast.AST], has_virtual_loop: bool) -> Iterator[Finding]:
    imported = dict(_imports(nodes))
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield from _judge(node, f"{node.module}.{alias.name}")
        elif isinstance(node, ast.Attribute):
            name = _dotted(node, imported)
            if name is not None:
                yield from _judge(node, name)
            if node.attr == "run_in_executor":
                yield Finding(node.lineno, ast.unparse(node), _THREADS)
            elif not has_virtual_loop and node.attr == "time" and ast.unparse(node.value).rstrip("()").endswith("loop"):
                yield Finding(node.lineno, ast.unparse(node), _CLOCK)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield from _judge(node, imported.get(node.func.id, node.func.id), is_call=True)
        if isinstance(node, ast.Call) and not node.args and _dotted(node.func, imported) == "random.Random":
            yield Finding(node.lineno, ast.unparse(node), f"it has no seed; {_RANDOM}")


def _imports(nodes: Sequence[ast.AST]) -> Iterator[tuple[str, str]]:
    """What each imported name stands for."""
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield (alias.asname, alias.name) if alias.asname else (alias.name.partition(".")[0],) * 2
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield alias.asname or alias.name, f"{node.module}.{alias.name}"


def _dotted(node: ast.expr, imported: Mapping[str, str]) -> str | None:
    """The full name of something imported, or None if it is nothing of the kind."""
    if isinstance(node, ast.Name):
        return imported.get(node.id)
    if isinstance(node, ast.Attribute):
        base = _dotted(node.value, imported)
        return f"{base}.{node.attr}" if base is not None else None
    return None


def _plain(node: ast.expr) -> str:
    """A name with dots, as it is written; "" for any other expression."""
    if isinstance(node, ast.Name):
        return node.id
    base = _plain(node.value) if isinstance(node, ast.Attribute) else ""
    return f"{base}.{node.attr}" if isinstance(node, ast.Attribute) and base else ""


def _judge(node: ast.stmt | ast.expr, name: str, *, is_call: bool = False) -> Iterator[Finding]:
    if any(name == allowed or name.startswith(f"{allowed}.") for allowed in ALLOWED):
        return
    parts = name.split(".")
    for count in range(1, len(parts) + 1):
        remedy = BANNED.get(".".join(parts[:count]))
        if remedy is not None and (count > 1 or len(parts) > 1 or is_call):
            yield Finding(node.lineno, name, remedy)
            return


# --- hashes and addresses --------------------------------------------------------------------------------------------------------


def _find_hashes(nodes: Sequence[ast.AST]) -> Iterator[Finding]:
    in_hash = {
        id(inner)
        for method in nodes
        if isinstance(method, ast.FunctionDef) and method.name == "__hash__"
        for inner in ast.walk(method)
    }
    for node in nodes:
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Name) and node.func.id == "hash" and id(node) not in in_hash:
            yield Finding(node.lineno, ast.unparse(node), _HASHES)
        for keyword in node.keywords:
            names = {inner.id for inner in ast.walk(keyword.value) if isinstance(inner, ast.Name)}
            if keyword.arg == "key" and names & {"id", "hash"}:
                yield Finding(node.lineno, ast.unparse(node), _ADDRESSES)


# --- sets ------------------------------------------------------------------------------------------------------------------------


def _find_set_order(nodes: Sequence[ast.AST]) -> Iterator[Finding]:
    known = _Sets(nodes)
    unheard = {
        id(argument)
        for call in nodes
        if isinstance(call, ast.Call) and _plain(call.func) in _ORDERLESS
        for argument in call.args
    }
    for node in nodes:
        for place in _ordered_places(node) if id(node) not in unheard else ():
            if known.is_set(place):
                yield Finding(place.lineno, ast.unparse(place), _SET_ORDER)


def _ordered_places(node: ast.AST) -> Iterator[ast.expr]:
    """What a node goes through in an order that can be told afterwards."""
    if isinstance(node, ast.For | ast.AsyncFor):
        yield node.iter
    elif isinstance(node, ast.ListComp | ast.DictComp | ast.GeneratorExp):
        yield from (generator.iter for generator in node.generators)
    elif isinstance(node, ast.YieldFrom):
        yield node.value
    elif isinstance(node, ast.List | ast.Tuple):
        yield from (element.value for element in node.elts if isinstance(element, ast.Starred))
    elif isinstance(node, ast.Call):
        yield from (argument.value for argument in node.args if isinstance(argument, ast.Starred))
        name = _plain(node.func)
        method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        if name in _ORDERED or method in ("join", "extend", "deque"):
            yield from node.args
        elif isinstance(node.func, ast.Attribute) and method == "pop" and not node.args:
            yield node.func.value


class _Sets:
    """Which expressions of a module are sets, as far as it says so itself: by their form, or by the only value or type that a name has."""

    def __init__(self, nodes: Sequence[ast.AST]) -> None:
        self._kinds: dict[str, set[bool]] = {}
        for node in nodes:
            if isinstance(node, ast.AnnAssign):
                self._note(_plain(node.target), _is_set_type(node.annotation))
            elif isinstance(node, ast.arg) and node.annotation is not None:
                self._note(node.arg, _is_set_type(node.annotation))
            elif isinstance(node, ast.ClassDef):
                for field in node.body:
                    if isinstance(field, ast.AnnAssign):
                        self._note(f"self.{_plain(field.target)}", _is_set_type(field.annotation))
        annotated = set(self._kinds)
        for node in nodes:
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    name = _plain(target)
                    if name and name not in annotated:
                        self._note(name, self.is_set(node.value))

    def _note(self, name: str, is_set: bool) -> None:
        self._kinds.setdefault(name, set()).add(is_set)

    def is_set(self, node: ast.expr) -> bool:
        """Whether an expression is a set whose order differs from run to run."""
        if isinstance(node, ast.Set):
            return not all(_hashes_to_itself(element) for element in node.elts)
        if isinstance(node, ast.SetComp):
            return True
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr | ast.BitAnd | ast.Sub | ast.BitXor):
            return self.is_set(node.left) or self.is_set(node.right)
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute) and node.func.attr in _SET_METHODS:
                return self.is_set(node.func.value)
            return _plain(node.func) in ("set", "frozenset")
        return self._kinds.get(_plain(node)) == {True}


def _hashes_to_itself(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int)


def _is_set_type(annotation: ast.expr) -> bool:
    """Whether a type is a set of anything but of values that hash to themselves."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        annotation = ast.parse(annotation.value, mode="eval").body
    if not isinstance(annotation, ast.Subscript):
        return False
    name = ast.unparse(annotation.value).rpartition(".")[2]
    return name in ("set", "frozenset", "Set", "AbstractSet") and ast.unparse(annotation.slice) not in SELF_HASHING
