"""The log-ins that kafka-python makes in a process in which the tools have run."""

from kafka.net.sasl.oauth import AbstractTokenProvider

from esp.cli.kafka.login import LibraryLogin


class OwnTokens(AbstractTokenProvider):
    """The provider of a program that uses kafka-python beside the tools."""

    def token(self) -> str:
        return "header.claims.signature"

    def extensions(self) -> dict[str, str]:
        return {"tenant": "one"}


def test_a_token_may_come_from_a_provider_of_another_programs_own() -> None:
    login = LibraryLogin(sasl_mechanism="OAUTHBEARER", sasl_oauth_token_provider=OwnTokens())
    assert login.auth_bytes() == b"n,,\x01auth=Bearer header.claims.signature\x01tenant=one\x01\x01"
    login.receive(b"")
    assert login.is_done()
