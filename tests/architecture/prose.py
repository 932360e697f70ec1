"""Counts of the phrases that docs/STYLE.md ("Say the noun") asks authors to avoid."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator

_QUESTION = re.compile(r"(What|Who|Whom|Whose|Whether|How|That|Those)\b")
_FRAGMENT = re.compile(r"Of\b")
_PRONOUN = re.compile(r"\b(who|whom|whoever|somebody|nobody|anybody)\b", re.IGNORECASE)
_VAGUE = re.compile(
    r"(?<![\w-])(who|whom|whoever|somebody|nobody|anybody|everybody|told|mend|mends|mended|anew)(?![\w-])",
    re.IGNORECASE,
)
_CODE = re.compile(r"```.*?```|`[^`\n]*`|\]\([^)\n]*\)", re.DOTALL)


def count_questions(source: str) -> int:
    """The number of docstrings, of attributes too, that begin with a question word, or with a pronoun in place of a noun."""
    return sum(_QUESTION.match(text) is not None for text in _docstrings(source))


def count_fragments(source: str) -> int:
    """The number of docstrings, of attributes too, that begin with Of: they say only in which whole the thing beside them is a part."""
    return sum(_FRAGMENT.match(text) is not None for text in _docstrings(source))


def count_pronouns(source: str) -> int:
    """The number of pronouns for persons in docstrings and comments."""
    texts = (*_docstrings(source), *_comments(source))
    return sum(len(_PRONOUN.findall(text)) for text in texts)


def count_vague_messages(source: str) -> int:
    """The number of pronouns for persons, and of verbs for which the field has others, in texts that a program prints or raises.

    A text is a string literal of two words or more that is no docstring. Expressions within an f-string do not count.
    """
    docstrings = set(_docstrings(source))
    texts = (text for text in _literals(source) if text not in docstrings and " " in text.strip())
    return sum(len(_VAGUE.findall(text)) for text in texts)


def count_vague_prose(page: str) -> int:
    """The number of the same words in a page of documentation, without its code, the targets of links and hyphenated names."""
    return len(_VAGUE.findall(_CODE.sub("", page)))


def _literals(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def _docstrings(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value.value


def _comments(source: str) -> Iterator[str]:
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return (token.string for token in tokens if token.type == tokenize.COMMENT)
