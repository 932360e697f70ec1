"""The listeners of a node with ``--secure``."""

import pytest

from esp.cli.node.lone_security import with_own_listener
from esp.model.errors import OperatorError


@pytest.mark.parametrize("setting", ["listeners", "advertised.listeners"])
@pytest.mark.parametrize(
    ("given", "whole"),
    [
        ("CLIENTS://0.0.0.0:9093", "CLIENTS://0.0.0.0:9093,NODES://127.0.0.1:0"),
        ("clients://[::1]:9093", "CLIENTS://[::1]:9093,NODES://127.0.0.1:0"),
        ("NODES://127.0.0.1:7, CLIENTS://:9093", "CLIENTS://:9093,NODES://127.0.0.1:7"),
        ("CONTROLLER://h:8,CLIENTS://h:9", "CLIENTS://h:9,NODES://127.0.0.1:0,CONTROLLER://h:8"),
    ],
)
def test_the_listener_for_clients_is_enough_and_stands_first(setting: str, given: str, whole: str) -> None:
    assert with_own_listener(setting, given) == whole


@pytest.mark.parametrize(
    ("given", "problem", "example"),
    [
        ("PLAINTEXT://0.0.0.0:9093", "no listener PLAINTEXT", "listeners=CLIENTS://0.0.0.0:9093;"),
        ("CLIENTS://:1,OUTSIDE://:2", "no listener OUTSIDE", "CLIENTS"),
        ("NODES://127.0.0.1:7", "names no listener for clients", "listeners=CLIENTS://127.0.0.1:9092;"),
        ("CLIENTS:9093", "is written NAME://HOST:PORT", "listeners=CLIENTS://127.0.0.1:9092;"),
        ("CLIENTS://:1,CLIENTS://:2", "each has a name of its own", "CLIENTS"),
    ],
)
def test_other_listeners_are_refused_with_the_name_to_write(given: str, problem: str, example: str) -> None:
    with pytest.raises(OperatorError) as refused:
        with_own_listener("listeners", given)
    assert f"--set listeners={given}: " in refused.value.problem
    assert problem in refused.value.problem
    assert example in refused.value.remedy
