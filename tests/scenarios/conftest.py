"""The flag that records the outcome of scripts anew."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--rewrite``."""
    parser.addoption(
        "--rewrite", action="store_true", help="record the outcome of the scenarios in tests/scenarios anew"
    )
