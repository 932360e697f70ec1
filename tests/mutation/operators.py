"""The small bugs that are put into a module by machine: where each can be put, and the module's source with it.

A mutation replaces one piece of the text, so that everything else of the file, line numbers too, stays as it is. None is put into what is
told to people: logging, the text of errors, docstrings; nor into assertions, which judge.
"""

import ast
from collections.abc import Iterator
from typing import Final, NamedTuple

TURNED: Final = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.In: "not in",
    ast.NotIn: "in",
}
"""What becomes of a comparison that is turned."""

WAIT: Final = 'await __import__("asyncio").sleep(0)'
"""A turn of the loop."""

_TOLD: Final = ("log", "_log", "logger", "_logger", "typer", "warnings")
"""Names of what tells people something."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Mutation(NamedTuple):
    """One bug: in ``function`` of ``path`` the text from ``start`` to ``end`` becomes ``replacement``."""

    path: str
    function: str
    operator: str
    line: int
    start: int
    end: int
    before: str
    replacement: str

    @property
    def key(self) -> tuple[str, str, str, str, str]:
        """What names it as long as the mutated text stands: neither the line nor anything else of the file counts."""
        return self.path, self.function, self.operator, self.before, self.replacement

    def apply(self, source: str) -> str:
        """The module with the bug in it."""
        assert source[self.start : self.end] == self.before
        return source[: self.start] + self.replacement + source[self.end :]

    def __str__(self) -> str:
        return (
            f"{self.path}:{self.line} {self.function}, {self.operator}:\n    - {self.before}\n    + {self.replacement}"
        )


def find_mutations(source: str, path: str) -> list[Mutation]:
    """All mutations of a module, in the order of its text."""
    return sorted(_Finder(source, path).find(), key=lambda mutation: (mutation.start, mutation.end, mutation.operator))


class _Finder:
    def __init__(self, source: str, path: str) -> None:
        self._source = source
        self._path = path
        self._starts = [0]
        for line in source.encode().splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        self._encoded = source.encode()

    def find(self) -> Iterator[Mutation]:
        yield from self._walk(ast.parse(self._source), "", is_async=False)

    def _walk(self, node: ast.AST, function: str, *, is_async: bool) -> Iterator[Mutation]:
        for child in ast.iter_child_nodes(node):
            if _is_told(child):
                continue
            if isinstance(child, Function | ast.ClassDef):
                name = f"{function}.{child.name}" if function else child.name
                for statement in child.body:
                    inner = isinstance(child, ast.AsyncFunctionDef) if isinstance(child, Function) else is_async
                    yield from self._of_node(statement, name if isinstance(child, Function) else "", is_async=inner)
                    yield from self._walk_one(statement, name, is_async=inner)
            else:
                yield from self._of_node(child, function, is_async=is_async)
                yield from self._walk(child, function, is_async=is_async)

    def _walk_one(self, statement: ast.stmt, function: str, *, is_async: bool) -> Iterator[Mutation]:
        if _is_told(statement):
            return
        if isinstance(statement, Function | ast.ClassDef):
            yield from self._walk(ast.Module([statement], []), function, is_async=is_async)
        else:
            yield from self._walk(statement, function, is_async=is_async)

    def _of_node(self, node: ast.AST, function: str, *, is_async: bool) -> Iterator[Mutation]:
        if not function or _is_told(node):
            return
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            yield from self._of_comparison(node, function)
        elif isinstance(node, ast.BoolOp):
            for place in range(len(node.values)):
                rest = [value for number, value in enumerate(node.values) if number != place]
                word = " and " if isinstance(node.op, ast.And) else " or "
                text = word.join(f"({self._text(value)})" if len(rest) > 1 else self._text(value) for value in rest)
                yield self._mutation(function, "operand left out", node, f"({text})")
        elif isinstance(node, ast.If | ast.While) and not isinstance(node.test, ast.Constant):
            if isinstance(node, ast.If):
                yield self._mutation(
                    function, "branch never taken", node.test, f"(({self._text(node.test)}) and False)"
                )
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub) and _is_one(node.right):
            yield self._mutation(function, "bound shifted", node, f"({self._text(node.left)})")
        elif isinstance(node, ast.Expr):
            call = node.value.value if isinstance(node.value, ast.Await) else node.value
            if isinstance(call, ast.Call):
                yield self._mutation(function, "call left out", node, "pass")
        if (
            is_async
            and isinstance(node, ast.Assign | ast.AugAssign | ast.Expr | ast.Return)
            and not _is_docstring(node)
        ):
            yield self._mutation(function, "await between", node, f"{WAIT}; {self._text(node)}")

    def _of_comparison(self, node: ast.Compare, function: str) -> Iterator[Mutation]:
        operation = node.ops[0]
        left, right = self._text(node.left), self._text(node.comparators[0])
        yield self._mutation(function, "comparison turned", node, f"({left} {TURNED[type(operation)]} {right})")
        if isinstance(operation, ast.Lt | ast.LtE | ast.Gt | ast.GtE):
            yield self._mutation(function, "bound shifted", node, f"({left} {_sign(operation)} ({right}) + 1)")

    def _mutation(self, function: str, operator: str, node: ast.expr | ast.stmt, replacement: str) -> Mutation:
        start, end = self._range(node)
        before = self._encoded[start:end].decode()
        start, end = len(self._encoded[:start].decode()), len(self._encoded[:end].decode())
        return Mutation(self._path, function, operator, node.lineno, start, end, before, replacement)

    def _range(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._starts[node.lineno - 1] + node.col_offset, self._starts[node.end_lineno - 1] + node.end_col_offset

    def _text(self, node: ast.expr | ast.stmt) -> str:
        start, end = self._range(node)
        return self._encoded[start:end].decode()


def _sign(operation: ast.cmpop) -> str:
    return {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}[type(operation)]  # type: ignore[index]


def _is_one(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == 1


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _is_told(node: ast.AST) -> bool:
    """Whether it is there for people, or judges, or is for the type checker."""
    if isinstance(node, ast.Assert | ast.Raise | ast.JoinedStr | ast.arguments | ast.arg) or _is_docstring(node):
        return True
    call = node.value if isinstance(node, ast.Expr) else node
    if not isinstance(call, ast.Call):
        return False
    name = call.func
    while isinstance(name, ast.Attribute):
        name = name.value
    return isinstance(name, ast.Name) and name.id in _TOLD
