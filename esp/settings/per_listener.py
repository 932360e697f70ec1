"""Names of settings with the prefix of a listener, ``listener.name.NAME.``, or of a mechanism of it."""

from esp.settings import sasl, tls


def unprefixed(name: str) -> str | None:
    """Return the setting that a name with a prefix gives; None if it has none, or is not known with one."""
    return tls.unprefixed(name) or sasl.unprefixed(name)
