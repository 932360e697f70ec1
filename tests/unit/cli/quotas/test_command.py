import pytest

from esp.cli.app import run_tools
from esp.cli.quotas.command import parse_values
from esp.cli.quotas.entities import in_words
from esp.model.client_quotas import ip_alone, user_and_client
from esp.model.errors import OperatorError


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["set", "--user", "a"], "needs quotas"),
        (["set", "--user", "a", "producer_byte_rate"], "key=number"),
        (["set", "producer_byte_rate=5"], "needs a client"),
        (["remove"], "needs a client"),
        (["which"], "needs a client"),
        (["list", "--dry-run"], "changes nothing"),
        (["which", "--user", "a", "producer_byte_rate=5"], "changes nothing"),
        (["set", "--user", "a", "--user-default", "producer_byte_rate=5"], "exclude each other"),
        (["set", "--user", "a", "--json", "producer_byte_rate=5"], "--json"),
    ],
)
def test_options_that_do_not_go_together_are_refused(capsys, arguments, word) -> None:
    assert run_tools(["quotas", *arguments]) == 1
    assert word in capsys.readouterr().err


def test_quotas_are_read_as_numbers() -> None:
    assert parse_values(["producer_byte_rate=1e6", "request_percentage=12.5"]) == {
        "producer_byte_rate": 1_000_000,
        "request_percentage": 12.5,
    }
    with pytest.raises(OperatorError):
        parse_values(["producer_byte_rate=5MB"])


def test_entities_are_named_for_people() -> None:
    assert in_words(user_and_client("alice", None)) == "user alice, client id (default)"
    assert in_words(ip_alone("192.0.2.1")) == "address 192.0.2.1"
