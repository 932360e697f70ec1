"""The rules by which the repository looks after itself: each takes text and returns what is wrong with it, one line for each finding.

They know nothing of this repository, so that their own tests can show what they catch.
"""

import ast
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

_LEFTOVER: Final = re.compile(r"\b(TOD[O]|FIXM[E]|XX[X])\b")  # none of which is one itself
_HOME: Final = re.compile(r"(?<![\w.~-])/(?:hom[e]/\w|User[s]/\w|roo[t]\b)")
_FENCE: Final = re.compile(r"^(```+|~~~+).*?^\1\s*$", re.MULTILINE | re.DOTALL)
_CODE_SPAN: Final = re.compile(r"`[^`\n]*`")
_LINK: Final = re.compile(r"!?\[[^\]\n]*\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)")
_HEADING: Final = re.compile(r"^#{1,6}\s+(.+?)\s*#*$", re.MULTILINE)
_EQUALITIES: Final = (ast.Eq, ast.NotEq, ast.In, ast.NotIn)
_SECRET: Final = re.compile(r"(^|_)(key|password|passwords|proof|signature|nonce|digest|hmac|token|verifier)$")


def find_leftovers(text: str) -> list[str]:
    """Marks of work that somebody meant to come back to."""
    return [f"line {number}: {line.strip()}" for number, line in _numbered(text) if _LEFTOVER.search(line)]


def find_home_paths(text: str) -> list[str]:
    """Paths that exist on one person's machine only."""
    return [f"line {number}: {line.strip()}" for number, line in _numbered(text) if _HOME.search(line)]


def find_docstring_problem(source: str) -> list[str]:
    """A module that does not say what it is for."""
    docstring = ast.get_docstring(ast.parse(source))
    if not docstring:
        return ["no docstring"]
    first = docstring.partition("\n\n")[0]
    return [] if first.endswith((".", ":")) else [f"the docstring begins with no sentence: {first.splitlines()[0]}"]


def find_sleeps(source: str) -> list[str]:
    """Sleeps of a thread that hope for something to have happened; in a ``while`` loop, which asks whether it has, one is no luck.

    ``asyncio.sleep`` is left alone: where the loop's time is simulated it costs nothing and is exact.
    """
    tree = ast.parse(source)
    names = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "time"
        for alias in node.names
        if alias.name == "sleep"
    }
    polled = {id(inner) for loop in ast.walk(tree) if isinstance(loop, ast.While) for inner in ast.walk(loop)}
    return [
        f"line {node.lineno}: {ast.unparse(node)}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and id(node) not in polled and ast.unparse(node.func) in {"time.sleep", *names}
    ]


def find_compared_secrets(source: str) -> list[str]:
    """Comparisons by ``==``, ``!=`` or ``in`` whose time would say how much of a secret was guessed; ``hmac.compare_digest`` does not tell.

    A secret is known by its name: a key, a password, a proof, a signature, a nonce, a digest or a token. Lengths are none.
    """
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Compare) and any(isinstance(sign, _EQUALITIES) for sign in node.ops):
            operands = [each for each in (node.left, *node.comparators) if not isinstance(each, ast.Constant)]
            names = {_SECRET.search(_last_name(each)) for each in operands} - {None}
            if names and len(operands) == len(node.comparators) + 1:
                found.append(f"line {node.lineno}: {ast.unparse(node)}")
    return found


def _last_name(node: ast.expr) -> str:
    """The name by which an expression calls its value: of an attribute, a call or an element the last one, empty if there is none."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.Subscript(slice=ast.Constant(value=str(name))):
            return name.lstrip("_")
        case ast.Call(func=function):
            return "" if ast.unparse(function) == "len" else _last_name(function)
        case ast.Subscript(value=value):
            return _last_name(value)
        case _:
            return ""


def module_lengths(sources: Mapping[str, str]) -> dict[str, int]:
    """How many lines each module has, by its path."""
    return {path: len(source.splitlines()) for path, source in sources.items()}


def function_lengths(sources: Mapping[str, str]) -> dict[str, int]:
    """How many lines each function has, by ``path:name``; of two with one name in a module, the longer one counts."""
    lengths: dict[str, int] = {}
    for path, source in sources.items():
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                name = f"{path}:{node.name}"
                lengths[name] = max(lengths.get(name, 0), (node.end_lineno or node.lineno) - node.lineno + 1)
    return lengths


def find_grown(lengths: Mapping[str, int], longest: Mapping[str, int], *, hint: int) -> list[str]:
    """Where a ratchet has slipped: an entry of the table of the longest that grew, and a newcomer beyond the hint.

    Args:
        lengths: of everything that is there, in lines.
        longest: the table: what was agreed on, in lines.
        hint: from how many lines on something belongs into the table, if it is longer than the table's shortest entry.
    """
    found = [
        f"{name} has grown from {agreed} to {lengths[name]} lines: shorten it, or agree to it in the table"
        for name, agreed in longest.items()
        if lengths.get(name, 0) > agreed
    ]
    found += [f"{name} is in the table and not there" for name in longest if name not in lengths]
    least = max(hint, min(longest.values(), default=0))
    found += [
        f"{name} has {length} lines, more than {least}: is it one thing? If so, agree to it in the table"
        for name, length in lengths.items()
        if length > least and name not in longest
    ]
    return found


def find_broken_links(document: Path, text: str) -> list[str]:
    """Links to files that are not there, or to headings that their documents do not have. The web is not asked."""
    found = []
    for target in _LINK.findall(_without_code(text)):
        if re.match(r"[a-z][a-z0-9+.-]*:", target):
            continue
        path, _, anchor = target.partition("#")
        linked = document.parent / path if path else document
        if path and not linked.exists():
            found.append(f"{target}: there is no {linked}")
        elif anchor and linked.suffix == ".md":
            linked_text = text if not path else linked.read_text(encoding="utf-8")
            if anchor not in heading_anchors(linked_text):
                found.append(f"{target}: {linked} has no such heading")
    return found


def heading_anchors(text: str) -> set[str]:
    """The anchors that GitHub gives to the headings of a Markdown text."""
    anchors: Counter[str] = Counter()
    found = set()
    for heading in _HEADING.findall(_FENCE.sub("", text)):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        anchor = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        found.add(f"{anchor}-{anchors[anchor]}" if anchors[anchor] else anchor)
        anchors[anchor] += 1
    return found


def find_valueless_attributes(text: str) -> list[str]:
    """Attributes that a method declares without a value: the type says that they are there, and until they are set they are not."""
    return [
        f"{node.lineno}: {ast.unparse(node.target)}"
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.AnnAssign) and node.value is None and isinstance(node.target, ast.Attribute)
    ]


def cited_rules(text: str, families: Collection[str]) -> set[str]:
    """The ids of rules that a text names; ``LOG-7..11`` names five, ``TRUNC-3.8`` is a part of one.

    Args:
        text: that may cite rules.
        families: what stands before the number in ids of rules; anything else that looks like one is none.
    """
    rule_id = rf"\b({'|'.join(sorted(families))})-(\d+)(?:\.\d+)?(?:\.\.(\d+))?"
    return {
        f"{family}-{number}"
        for family, first, last in re.findall(rule_id, text)
        for number in range(int(first), int(last or first) + 1)
    }


def defined_rules(document: str) -> Counter[str]:
    """The ids that a document explains, each in the first column of a row."""
    return Counter(re.findall(r"^\| ([A-Z]+-\d+) \|", document, re.MULTILINE))


def rule_families(ids: Iterable[str]) -> set[str]:
    """What the ids of rules begin with: LOG of LOG-13."""
    return {rule.partition("-")[0] for rule in ids}


def _numbered(text: str) -> Iterator[tuple[int, str]]:
    return enumerate(text.splitlines(), 1)


def _without_code(text: str) -> str:
    return _CODE_SPAN.sub("", _FENCE.sub("", text))
