"""Counts of the phrases that docs/STYLE.md ("Say the noun") asks authors to avoid."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator

_QUESTION = re.compile(r"(What|Who|Whom|Whose|Whether|How)\b")
_PRONOUN = re.compile(r"\b(who|whom|whoever|somebody|nobody|anybody)\b", re.IGNORECASE)


def count_questions(source: str) -> int:
    """The number of docstrings, of attributes too, that begin with a question word."""
    return sum(_QUESTION.match(text) is not None for text in _docstrings(source))


def count_pronouns(source: str) -> int:
    """The number of pronouns for persons in docstrings and comments."""
    texts = (*_docstrings(source), *_comments(source))
    return sum(len(_PRONOUN.findall(text)) for text in texts)


def _docstrings(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value.value


def _comments(source: str) -> Iterator[str]:
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return (token.string for token in tokens if token.type == tokenize.COMMENT)
