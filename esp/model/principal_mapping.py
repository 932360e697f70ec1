"""From the distinguished name in a client's certificate to the name of its principal, by ``ssl.principal.mapping.rules`` (KIP-371).

The rules are read and applied as Kafka's ``SslPrincipalMapper`` does. Their regular expressions are RE2's, so that no name, which a client
chooses with its certificate, takes long; an expression that only Java has is refused when the rules are read.
"""

import re
from typing import Any, Final, NamedTuple

from esp.model.linear_regex import compile_linear

_RULE: Final = r"(?P<default>DEFAULT)|RULE:(?P<pattern>(?:\\.|[^\\/])*)/(?P<replacement>(?:\\.|[^\\/])*)/(?P<case>[LU]?).*?|(?:.*?)"
_SPLITTER: Final = re.compile(rf"\s*(?P<rule>{_RULE})\s*(?:,|$)")
_REFERENCE: Final = re.compile(r"\\(?P<literal>.)|\$(?P<group>\d+)")


class _Rule(NamedTuple):
    """A rule; one without a pattern gives the name as it is."""

    pattern: Any = None
    replacement: str = ""
    case: str = ""


class PrincipalMapping:
    """The rules of a node, in their order.

    Args:
        text: the value of the setting; without a rule it names no principal.

    Raises:
        ValueError: it is no list of rules; the message says why.
    """

    def __init__(self, text: str) -> None:
        self._rules: list[_Rule] = []
        position = 0
        text = text.strip()
        while position < len(text):
            match = _SPLITTER.match(text, position)
            if match is None:
                raise ValueError(f"it is no rule: {text[position:]}")
            position = match.end()
            self._add(match)

    def _add(self, match: "re.Match[str]") -> None:
        rule = match["rule"]
        if match["default"] is not None:
            self._rules.append(_Rule())
        elif match["pattern"] is not None:
            end = f"/{match['case']}"
            if not rule.endswith(end):
                raise ValueError(
                    f"it is no rule: {rule}. A rule is RULE:pattern/replacement/, with L or U at its end, or DEFAULT"
                )
            self._rules.append(_Rule(_compiled(match["pattern"]), match["replacement"], match["case"]))
        elif rule:
            raise ValueError(
                f"it is no rule: {rule}. A rule is RULE:pattern/replacement/, with L or U at its end, or DEFAULT"
            )

    def name_of(self, distinguished_name: str) -> str | None:
        """Return the name by the first rule that matches, None if none does."""
        for rule in self._rules:
            if rule.pattern is None:
                return distinguished_name
            if rule.pattern.fullmatch(distinguished_name) is not None:
                name = _replace_all(rule, distinguished_name)
                return name.lower() if rule.case == "L" else name.upper() if rule.case == "U" else name
        return None


def _compiled(pattern: str) -> Any:
    try:
        return compile_linear(pattern, has_groups=True)
    except ValueError as error:
        raise ValueError(f"RE2 cannot read the expression {pattern}: {error}") from error


def _replace_all(rule: _Rule, text: str) -> str:
    """Return the text with each match replaced, as Java's ``replaceAll``: also the empty one that may follow a whole match."""
    parts: list[str] = []
    copied = position = 0
    while position <= len(text):
        match = rule.pattern.search(text, position)
        if match is None:
            break
        parts += (text[copied : match.start()], _expand(rule.replacement, match))
        copied = match.end()
        position = copied + (match.end() == match.start())
    return "".join((*parts, text[copied:]))


def _expand(replacement: str, match: Any) -> str:
    """Return the replacement with its references filled in: ``$1`` is a group, unless there are fewer, and ``\\$`` a dollar."""
    groups = match.groups()

    def fill(reference: "re.Match[str]") -> str:
        if reference["literal"] is not None:
            return reference["literal"]
        digits = reference["group"]
        for length in range(len(digits), 0, -1):  # Java takes as many digits as name a group
            number = int(digits[:length])
            if number <= len(groups):
                found: str = match.group(number) or ""
                return found + digits[length:]
        return f"${digits}"

    return _REFERENCE.sub(fill, replacement)
