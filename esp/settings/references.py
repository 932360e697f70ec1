"""References to values that stand elsewhere, so that a settings file holds no secret: ``${file:/etc/esp/secrets.properties:password}``.

The providers are Kafka's (KIP-297, KIP-421, KIP-887): of a properties file, of a directory with a file for each value, and of the
environment. ``config.providers`` names them, and ``config.providers.NAME.class`` says which kind each is. Kafka leaves a reference that it
cannot resolve as it is, so that its text becomes the password. Here it is refused.
"""

import posixpath
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from esp.settings.properties import parse_properties
from esp.settings.setting import FamilyError

PROVIDERS: Final = "config.providers"
_PREFIX: Final = PROVIDERS + "."
_FILE: Final = "org.apache.kafka.common.config.provider.FileConfigProvider"
_DIRECTORY: Final = "org.apache.kafka.common.config.provider.DirectoryConfigProvider"
_ENVIRONMENT: Final = "org.apache.kafka.common.config.provider.EnvVarConfigProvider"
_CLASSES: Final = (_FILE, _DIRECTORY, _ENVIRONMENT)
_PATHS: Final = "param.allowed.paths"
_NAMES: Final = "param.allowlist.pattern"
_PARAMETERS: Final = {_FILE: _PATHS, _DIRECTORY: _PATHS, _ENVIRONMENT: _NAMES}

_REFERENCE: Final = re.compile(r"\$\{(?P<provider>[^}:]*):(?:(?P<path>[^}:]*):)?(?P<key>[^}]*)\}")


class ReferenceRefusedError(FamilyError):
    """A reference, or a provider, cannot be used."""


class Places(NamedTuple):
    """The places where values stand."""

    read_text: Callable[[str], str]
    """Returns the text of a file; OSError or UnicodeDecodeError: there is none."""
    environment: Mapping[str, str]


def _no_file(_path: str) -> str:
    raise FileNotFoundError("there are no files here")


NOWHERE: Final = Places(_no_file, MappingProxyType({}))
"""No places: every reference is refused."""


class _Provider(NamedTuple):
    kind: str
    allowed: str
    """Paths separated by commas, or a pattern of names; empty: all."""


def describes_provider(name: str) -> bool:
    """True if a setting says what a provider is: it has done its work when the references are resolved."""
    return name.startswith(_PREFIX)


def resolve_references(texts: Mapping[str, str], places: Places) -> dict[str, str]:
    """Return the texts of settings by their names, with the values in place of the references.

    Raises:
        ReferenceRefusedError: a reference cannot be resolved; or a provider is none of those that there are.
    """
    providers = _providers_of(texts)

    def resolve(name: str, text: str) -> str:
        def value_of(match: "re.Match[str]") -> str:
            provider = providers.get(match["provider"])
            if provider is None:
                known = ", ".join(providers) or "none"
                raise ReferenceRefusedError(name, f"{match[0]}: {PROVIDERS} names {known}, not {match['provider']}")
            try:
                return _value(provider, match["path"] or "", match["key"], places)
            except _NoValueError as error:
                raise ReferenceRefusedError(name, f"{match[0]}: {error}") from error

        return _REFERENCE.sub(value_of, text)

    return {name: text if describes_provider(name) else resolve(name, text) for name, text in texts.items()}


class _NoValueError(Exception):
    """A provider has no value; the message says why."""


def _providers_of(texts: Mapping[str, str]) -> dict[str, _Provider]:
    names = [name.strip() for name in texts.get(PROVIDERS, "").split(",") if name.strip()]
    providers: dict[str, _Provider] = {}
    known: set[str] = set()
    for name in names:
        setting = f"{_PREFIX}{name}.class"
        kind = texts.get(setting, "").strip()
        if kind not in _CLASSES:
            raise ReferenceRefusedError(setting, f"{kind or 'nothing'} is none of {', '.join(_CLASSES)}")
        allowing = f"{_PREFIX}{name}.{_PARAMETERS[kind]}"
        providers[name] = _Provider(kind, texts.get(allowing, "").strip())
        known |= {setting, allowing}
    for setting in texts:
        if describes_provider(setting) and setting not in known:
            raise ReferenceRefusedError(setting, f"it belongs to none of the providers of {PROVIDERS}")
    return providers


def _value(provider: _Provider, path: str, key: str, places: Places) -> str:
    if provider.kind == _ENVIRONMENT:
        try:
            is_allowed = not provider.allowed or re.fullmatch(provider.allowed, key) is not None
        except re.error as error:
            raise _NoValueError(f"{_NAMES} is no regular expression: {error}") from error
        if not is_allowed:
            raise _NoValueError("its name is not allowed")
        if path or key not in places.environment:
            raise _NoValueError("there is no such variable")
        return places.environment[key]
    file = posixpath.join(path, key) if provider.kind == _DIRECTORY else path
    if provider.kind == _DIRECTORY and posixpath.basename(key) != key:
        raise _NoValueError("a file of the directory has a name without a path")
    if not _is_allowed(file, provider.allowed):
        raise _NoValueError("its path is not below one that is allowed")
    try:
        text = places.read_text(file)
        values = (
            {key: text} if provider.kind == _DIRECTORY else {each.name: each.value for each in parse_properties(text)}
        )
    except OSError as error:
        raise _NoValueError(f"the file cannot be read: {error.strerror or error}") from error
    except ValueError as error:  # of UTF-8, or of properties; the text may hold secrets
        raise _NoValueError("the file is no text of properties") from error
    if key not in values:
        raise _NoValueError("there is no such name in the file")
    return values[key]


def _is_allowed(file: str, allowed: str) -> bool:
    """True if a file is one of some paths, or below one."""
    if not allowed:
        return True
    real = posixpath.normpath(file)
    for each in allowed.split(","):
        root = posixpath.normpath(each.strip())
        if real == root or real.startswith(root.rstrip(posixpath.sep) + posixpath.sep):
            return True
    return False
