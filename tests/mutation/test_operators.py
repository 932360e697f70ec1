import ast
from textwrap import dedent

from tests.mutation.operators import find_mutations

SOURCE = dedent(
    '''
    """A module: 1 < 2."""
    LIMIT = 1 + 1

    class Thing:
        def size(self, at=1 + 1):
            """Says 1 < 2."""
            assert at > 0
            if at < LIMIT and self.ok:
                log.info("é %d", at + 1)
                self.note()
            raise ValueError(f"{at + 1}")

        async def wait(self):
            await self.flush()
            return 1
    '''
)


def found():
    return find_mutations(SOURCE, "esp/thing.py")


def test_each_operator_has_its_places():
    assert {(mutation.function, mutation.operator, mutation.before, mutation.replacement) for mutation in found()} == {
        ("Thing.size", "branch never taken", "at < LIMIT and self.ok", "((at < LIMIT and self.ok) and False)"),
        ("Thing.size", "operand left out", "at < LIMIT and self.ok", "(self.ok)"),
        ("Thing.size", "operand left out", "at < LIMIT and self.ok", "(at < LIMIT)"),
        ("Thing.size", "comparison turned", "at < LIMIT", "(at <= LIMIT)"),
        ("Thing.size", "bound shifted", "at < LIMIT", "(at < (LIMIT) + 1)"),
        ("Thing.size", "call left out", "self.note()", "pass"),
        ("Thing.wait", "call left out", "await self.flush()", "pass"),
        (
            "Thing.wait",
            "await between",
            "await self.flush()",
            'await __import__("asyncio").sleep(0); await self.flush()',
        ),
        ("Thing.wait", "await between", "return 1", 'await __import__("asyncio").sleep(0); return 1'),
    }


def test_each_mutated_module_still_is_python_and_differs_in_one_place():
    for mutation in found():
        mutated = mutation.apply(SOURCE)
        assert ast.dump(ast.parse(mutated)) != ast.dump(ast.parse(SOURCE))
        assert mutated.count("\n") == SOURCE.count("\n")


def test_the_same_place_has_the_same_name_wherever_it_stands():
    moved = find_mutations("\n\n# é\n" + SOURCE, "esp/thing.py")
    assert [mutation.key for mutation in moved] == [mutation.key for mutation in found()]
    assert [mutation.line for mutation in moved] == [mutation.line + 3 for mutation in found()]
