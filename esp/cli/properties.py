"""``name=value`` texts of the command line."""

from collections.abc import Mapping, Sequence

from esp.model.errors import OperatorError


def parse_pairs(option: str, texts: Sequence[str]) -> dict[str, str]:
    """Return the pairs that were given with ``option``; the last of a name counts.

    Raises:
        OperatorError: one is not of the form ``name=value``.
    """
    pairs: dict[str, str] = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not separator or not name.strip():
            raise OperatorError(f"{option} {text}: not of the form name=value", f"Write {option} name=value")
        pairs[name.strip()] = value
    return pairs


def flag(properties: Mapping[str, str], name: str, default: bool = False) -> bool:
    """Return a property that is ``true`` or ``false``.

    Raises:
        OperatorError: it is neither.
    """
    text = properties.get(name, str(default)).strip().lower()
    if text not in ("true", "false"):
        raise OperatorError(f"--property {name}={text}: neither true nor false", f"Write {name}=true or {name}=false.")
    return text == "true"
