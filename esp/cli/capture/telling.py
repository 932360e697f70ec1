"""Errors of a capture as errors of a command, and its packages, which are loaded when a capture runs."""

import importlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from esp.arrow.errors import BrokenBatchError
from esp.cli.kafka.command_config import read_client_settings
from esp.consumer.errors import ConsumerError
from esp.model.errors import OperatorError
from esp.options.errors import OptionError
from esp.options.registry import RegistryError
from esp.values.errors import MissingPackageError

_EXTRAS: Final = {"deltalake": "spark,delta"}
"""The extras that bring packages; all others come with ``spark``."""


def load(module: str) -> Any:
    """Return a module of :mod:`esp.capture`.

    Raises:
        OperatorError: a package that it needs is not installed.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise _missing(error) from error


def connect(bootstrap_server: str, command_config: str | None) -> tuple[Any, Any]:
    """Return the addresses of bootstrap servers, and the terms of connections to them (:class:`~esp.consumer.connection.Terms`).

    Raises:
        OptionError: the addresses cannot be used.
        ConsumerError: a setting of the file cannot be used.
    """
    settings = {} if command_config is None else read_client_settings(command_config)
    security = load("esp.consumer.security").read_security(settings)
    terms = load("esp.consumer.connection").Terms(security=security, client_id=settings.get("client.id", "esp-capture"))
    return load("esp.options.servers").parse_servers("bootstrapServer", bootstrap_server), terms


@contextmanager
def telling(option: str | None = None) -> Iterator[None]:
    """Raise the errors of a capture as OperatorError: the fault, and behind its last colon the remedy.

    Args:
        option: the command's own option, with its value, where it stands for those of values; None: the names are the same.
    """
    try:
        yield
    except OptionError as error:
        if option is not None:
            raise _told(f"{option}: {error.problem}") from error
        name = re.sub("([A-Z])", lambda found: f"-{found[1].lower()}", error.name)
        value = "" if error.value is None else f" {error.value}"
        raise _told(f"--{name}{value}: {error.problem}") from error
    except (ConsumerError, BrokenBatchError, RegistryError, MissingPackageError) as error:
        raise _told(str(error)) from error
    except ModuleNotFoundError as error:
        raise _missing(error) from error
    except OSError as error:
        raise OperatorError(
            str(error), "Look at the directory of the capture: its rights, and its free space."
        ) from error


def _missing(error: ModuleNotFoundError) -> OperatorError:
    extra = _EXTRAS.get((error.name or "").partition(".")[0], "spark")
    return OperatorError(
        f"a capture like this needs the package {error.name}, which is not installed here",
        f'Install it: pip install "esp[{extra}]"',
    )


def _told(text: str) -> OperatorError:
    problem, _, remedy = text.rpartition(": ")
    if not problem:
        return OperatorError(text, "See: esp capture status")
    return OperatorError(problem, f"{remedy[0].upper()}{remedy[1:]}.")
