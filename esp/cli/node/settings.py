"""The settings of one node, from the options that the commands about nodes share."""

import argparse
import os
from collections.abc import Sequence
from typing import Final

from esp.cli.text_files import PLACES
from esp.model.errors import OperatorError
from esp.settings.node import BrokerSettings, load_broker_settings

DEFAULT_DATA_DIR: Final = "esp-data"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that say which settings a node has."""
    parser.add_argument("--config", "-c", metavar="FILE", help="a server.properties file")
    parser.add_argument(
        "--data-dir", metavar="DIR", help=f"where the node keeps its data (default: log.dirs, or ./{DEFAULT_DATA_DIR})"
    )
    add_overrides(parser)


def add_overrides(parser: argparse.ArgumentParser) -> None:
    """Add ``--set``."""
    parser.add_argument(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        dest="overrides",
        help="a setting that goes before the file's; may be given several times",
    )


def security_path(data_dir: str) -> str:
    """The directory of the protection of a node that is started with ``--secure``, beside its data."""
    return os.path.abspath(data_dir) + "-security"


def load_settings(options: argparse.Namespace) -> BrokerSettings:
    """Return the settings that the options of :func:`add_arguments` come to.

    Raises:
        OperatorError: the file cannot be read, or the settings are none.
    """
    overrides = list(options.overrides)
    if options.data_dir is not None and not names_setting(overrides, "log.dirs"):
        overrides.append(f"log.dirs={options.data_dir}")
    return load_broker_settings(_read_config(options.config), overrides, file_name=options.config or "", places=PLACES)


def names_setting(overrides: Sequence[str], name: str) -> bool:
    """True if one of the ``name=value`` texts sets ``name``."""
    return any(text.partition("=")[0].strip() == name for text in overrides)


def _read_config(path: str | None) -> str | None:
    if path is None:
        return None
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise OperatorError(
            f"Cannot read the settings file {path}: {error}", "Give the path of a readable file."
        ) from error
