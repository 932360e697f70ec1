"""The examples of pages: commands of a shell, and the output that the page shows below each."""

import re
from pathlib import Path
from typing import Final, NamedTuple

_DOCS: Final = Path(__file__).parents[2] / "docs"
_PROMPT: Final = "$ esp "


class Example(NamedTuple):
    """A command of ESP's, without its first word, and the lines that it prints."""

    command: str
    output: list[str]


def examples_of(page: str) -> list[Example]:
    """Return the examples of a page of ``docs``, in order."""
    found: list[Example] = []
    for block in re.findall(r"```(?:console)?\n(\$ .*?)```", (_DOCS / page).read_text(encoding="utf-8"), re.DOTALL):
        for line in block.splitlines():
            if line.startswith("$ "):
                is_ours = line.startswith(_PROMPT)
                if is_ours:
                    found.append(Example(line.removeprefix(_PROMPT), []))
            elif is_ours:
                found[-1].output.append(line)
    return found
