"""Write the table of rooms into docs/ARCHITECTURE.md: every package with what its docstring says; or list one room's modules.

Usage: python -m tools.rooms [--check]
       python -m tools.rooms esp/storage
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from tools.marked_text import main, replace_marked

ROOT = Path(__file__).parent.parent
DOCUMENT = ROOT / "docs" / "ARCHITECTURE.md"
BEGIN = "<!-- begin: rooms, written by tools/rooms.py -->"
END = "<!-- end: rooms -->"


def table(root: Path) -> str:
    """All packages below ``root`` in Markdown, in the order of their paths."""
    rows = [
        f"| `{path.parent.relative_to(root.parent)}/` | {_told(path)} |" for path in sorted(root.rglob("__init__.py"))
    ]
    return "\n".join(["", "| room | what it holds |", "| --- | --- |", *rows, ""])


def listing(room: Path) -> Iterator[str]:
    """A line for each module of a package: its name and the first sentence of its docstring."""
    modules = sorted(path for path in room.glob("*.py") if path.stem != "__init__")
    width = max((len(path.stem) for path in modules), default=0)
    return (f"{path.stem:{width}}  {_first_sentence(_told(path))}" for path in modules)


def _told(path: Path) -> str:
    """The first paragraph of a module's docstring on one line, as Markdown."""
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    paragraph = " ".join(docstring.partition("\n\n")[0].split())
    return paragraph.replace(":mod:", "").replace("``", "`").replace("|", "\\|")


def _first_sentence(text: str) -> str:
    return text.partition(". ")[0].rstrip(".") + "."


if __name__ == "__main__":
    rooms = [argument for argument in sys.argv[1:] if not argument.startswith("-")]
    if rooms:
        print("\n".join(line for room in rooms for line in listing(Path(room))))
        sys.exit()
    renewals = {DOCUMENT: lambda document: replace_marked(document, BEGIN, END, table(ROOT / "esp"))}
    sys.exit(main(__doc__, "tools.rooms", renewals))
