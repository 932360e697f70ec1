"""Scripts with their recorded outcome: read, played on a stage, and written again.

A script is a sequence of blocks, with comments between them::

    # area: situation

    verb argument key=value
    another verb
    ----
    what came of it

Lines that begin with ``#`` are for the reader. The lines above ``----`` are commands; those below, up to an empty line, are what the
commands said when the script was recorded. The area of the title picks the stage, whose verbs are the commands.
"""

import inspect
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches, unified_diff
from keyword import iskeyword
from pathlib import Path
from typing import Any, Final

SEPARATOR: Final = "----"
NOTHING_SAID: Final = "ok"
REWRITE: Final = "pytest tests/scenarios --rewrite"


class ScriptError(Exception):
    """A script cannot be played; the message begins with file and line."""


class Stage:
    """What scripts of one area are played on. Its public methods that are marked by :func:`verb` are the commands.

    A script gives arguments by position or as ``key=value``; their annotations say what they are: ``int``, ``str``, or
    ``tuple[int, ...]`` for ``1,2,3``. Names in scripts have ``-`` or ``.`` where Python has ``_``.
    """

    def __init__(self) -> None:
        self._lines: list[str] = []

    def say(self, line: str) -> None:
        """Add a line to the outcome of the block."""
        self._lines.append(line)

    def take(self) -> list[str]:
        """What was said since this was asked last."""
        lines, self._lines = self._lines, []
        return lines


def verb(method: Callable[..., None]) -> Callable[..., None]:
    """Make a method of a stage a command of scripts."""
    method.is_verb = True
    return method


def find_verbs(stage: Stage) -> dict[str, Callable[..., None]]:
    """The commands of a stage by their names in scripts."""
    return {
        name.replace("_", "-"): getattr(stage, name)
        for name, function in inspect.getmembers(type(stage), inspect.isfunction)
        if hasattr(function, "is_verb")
    }


@dataclass(slots=True)
class Block:
    """Commands with the numbers of their lines, and the comments and empty lines before them."""

    prose: list[str] = field(default_factory=list)
    commands: list[tuple[int, str]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Script:
    """A file: its blocks, the last of which may be prose alone."""

    name: str
    title: str
    blocks: list[Block]

    @property
    def area(self) -> str:
        """What stands before the colon of the title."""
        return self.title.partition(":")[0]


def read_script(name: str, text: str) -> Script:
    """Take a script apart. What was recorded is not kept: it is compared as text.

    Raises:
        ScriptError: it has no title, or what was recorded belongs to no command.
    """
    lines = text.splitlines()
    title = lines[0].removeprefix("#").strip() if lines else ""
    area, colon, situation = title.partition(": ")
    if not (lines and lines[0].startswith("# ") and area and colon and situation):
        raise ScriptError(f'{name}:1: a script begins with its title, "# area: situation"')
    blocks = [Block()]
    is_outcome = False
    for number, line in enumerate(lines, 1):
        block = blocks[-1]
        if is_outcome and line:
            continue
        if is_outcome or (not line and block.commands):
            blocks.append(Block(prose=[line]))
            is_outcome = False
        elif line == SEPARATOR:
            if not block.commands:
                raise ScriptError(f"{name}:{number}: {SEPARATOR} without a command above it")
            is_outcome = True
        elif not line or line.startswith("#"):
            if block.commands:
                raise ScriptError(f"{name}:{number}: a comment stands above the commands of its block")
            block.prose.append(line)
        else:
            block.commands.append((number, line))
    return Script(name, title, blocks)


def play(script: Script, stages: Mapping[str, Callable[[], Stage]]) -> str:
    """Play a script, and return its text with what its commands said now.

    Raises:
        ScriptError: there is no such stage, verb or argument.
    """
    if script.area not in stages:
        raise ScriptError(f"{script.name}:1: unknown area {script.area!r}; there are: {', '.join(sorted(stages))}")
    stage = stages[script.area]()
    text: list[str] = []
    for block in script.blocks:
        text += block.prose
        for number, command in block.commands:
            text.append(command)
            _perform(stage, f"{script.name}:{number}", command)
        if block.commands:
            text += [SEPARATOR, *(stage.take() or [NOTHING_SAID])]
    return "\n".join(text).rstrip("\n") + "\n"


def _perform(stage: Stage, place: str, command: str) -> None:
    try:
        word, *given = shlex.split(command)
    except ValueError as error:
        raise ScriptError(f"{place}: {error}") from error
    verbs = find_verbs(stage)
    if word not in verbs:
        close = get_close_matches(word, verbs, 1)
        hint = f"is {close[0]!r} meant? " if close else ""
        raise ScriptError(f"{place}: unknown verb {word!r}; {hint}there are: {', '.join(sorted(verbs))}")
    method = verbs[word]
    signature = inspect.signature(method)
    try:
        arguments = _bind(signature, given)
    except (TypeError, ValueError) as error:
        raise ScriptError(f"{place}: {word}: {error}; it is used as: {word} {_usage(signature)}") from error
    try:
        method(*arguments.args, **arguments.kwargs)
    except Exception as error:
        error.add_note(f"at {place}: {command}")
        raise


def _bind(signature: inspect.Signature, given: list[str]) -> inspect.BoundArguments:
    positional = [text for text in given if "=" not in text]
    named = dict(text.split("=", 1) for text in given if "=" in text)
    keywords = {_python_name(name): text for name, text in named.items()}
    arguments = signature.bind(*positional, **keywords)
    for name, value in arguments.arguments.items():
        arguments.arguments[name] = _convert(value, signature.parameters[name].annotation)
    return arguments


def _python_name(name: str) -> str:
    name = name.replace("-", "_").replace(".", "_")
    return f"{name}_" if iskeyword(name) else name


def _convert(text: str, annotation: Any) -> object:
    if annotation == tuple[int, ...]:
        return tuple(int(part) for part in text.split(",") if part)
    if annotation is int:
        return int(text)
    assert annotation is str, f"{annotation} is nothing that scripts can say"
    return text


def _usage(signature: inspect.Signature) -> str:
    words = []
    for name, parameter in signature.parameters.items():
        word = name.rstrip("_").replace("_", "-")
        word = f"{word}=..." if parameter.kind is parameter.KEYWORD_ONLY else word
        words.append(word if parameter.default is parameter.empty else f"[{word}]")
    return " ".join(words)


def find_difference(path: Path, stages: Mapping[str, Callable[[], Stage]], *, rewrite: bool) -> str:
    """Play a file, and tell how the outcome differs from what was recorded; empty if it does not. ``rewrite`` records it instead.

    Raises:
        ScriptError: the script cannot be played.
    """
    recorded = path.read_text(encoding="utf-8")
    played = play(read_script(path.name, recorded), stages)
    if played == recorded:
        return ""
    if rewrite:
        path.write_text(played, encoding="utf-8")
        return ""
    return _describe_difference(path.name, recorded, played)


def _describe_difference(name: str, recorded: str, played: str) -> str:
    lines = unified_diff(
        recorded.splitlines(), played.splitlines(), f"{name} as recorded", f"{name} as it is now", lineterm=""
    )
    return "\n".join(
        [
            *lines,
            "",
            f"If that is how it should be, record it with `{REWRITE} -k {Path(name).stem}` and read the change.",
        ]
    )
