"""The tokens of commands: from a file, or from an endpoint over https."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from esp.authentication.errors import AuthenticationError
from esp.cli.kafka.access_tokens import ToolTokens
from esp.cli.kafka.command_config import SASL_LOGIN, TOKEN_PROVIDER, read_command_config, using
from esp.cli.kafka.login import refused_login
from esp.model.errors import OperatorError
from esp.model.oauth import OauthLogin
from esp.model.tls import StoreType, TlsPolicy, TrustStore
from esp.model.web_place import parse_web_place
from tests.models.certificates import Authority
from tests.models.identity_provider import CLIENTS, IdentityProvider

MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"


@pytest.fixture
def provider(tmp_path: Path) -> Iterator[IdentityProvider]:
    authority = Authority()
    authority.write_pem(tmp_path / "ca.pem")
    with IdentityProvider(authority, tmp_path) as made:
        yield made


def tokens_of(provider: IdentityProvider, tmp_path: Path, **changes) -> ToolTokens:
    trust = TrustStore(StoreType.PEM, str(tmp_path / "ca.pem"))
    login = OauthLogin(
        parse_web_place(f"{provider.url}/token"),
        "alice",
        CLIENTS["alice"],
        tls=TlsPolicy("", trust_store=trust),
        backoff_ms=1,
        backoff_max_ms=5,
    )
    return ToolTokens(replace(login, **changes))


def test_token_of_an_endpoint_is_kept(provider: IdentityProvider, tmp_path: Path) -> None:
    tokens = tokens_of(provider, tmp_path)
    first = tokens.token()
    assert tokens.token() == first
    assert provider.asked == ["/token"]


def test_token_that_ends_soon_is_replaced(provider: IdentityProvider, tmp_path: Path) -> None:
    provider.life_s = 0
    tokens = tokens_of(provider, tmp_path)
    tokens.token()
    tokens.token()
    assert provider.asked == ["/token", "/token"]


def test_wrong_secret_is_told_without_it(provider: IdentityProvider, tmp_path: Path) -> None:
    with pytest.raises(AuthenticationError, match="status 401") as failed:
        tokens_of(provider, tmp_path, client_secret="wrong-secret").token()
    assert "wrong-secret" not in failed.value.reason


def test_redirect_is_not_followed(provider: IdentityProvider, tmp_path: Path) -> None:
    provider.redirects_to = f"{provider.url}/elsewhere"
    with pytest.raises(AuthenticationError, match="redirects are not followed"):
        tokens_of(provider, tmp_path).token()
    assert set(provider.asked) == {"/token"}


def test_endpoint_of_another_authority_is_not_believed(provider: IdentityProvider, tmp_path: Path) -> None:
    Authority("CN=Another").write_pem(tmp_path / "ca.pem")
    with pytest.raises(AuthenticationError, match="certificate verify failed"):
        tokens_of(provider, tmp_path).token()
    assert not provider.asked


def written(tmp_path: Path, *lines: str) -> str:
    path = tmp_path / "client.properties"
    path.write_text("security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\n" + "\n".join(lines))
    return str(path)


def test_file_of_settings_names_a_file_of_a_token(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("opaque\n")
    settings = read_command_config(
        written(
            tmp_path,
            f"sasl.oauthbearer.token.endpoint.url=file://{tmp_path}/token",
            f"sasl.jaas.config={MODULE} required;",
        )
    )
    assert settings["sasl_mechanism"] == "OAUTHBEARER"
    assert settings[TOKEN_PROVIDER].token() == "opaque"
    assert settings[SASL_LOGIN].oauth.source.path == f"{tmp_path}/token"


def test_remedy_for_a_refused_token_names_no_password(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("opaque\n")
    settings = read_command_config(written(tmp_path, f"sasl.oauthbearer.token.endpoint.url=file://{tmp_path}/token"))
    with using(settings):
        refused = refused_login("a:1", '{"status":"invalid_token"}')
    assert "The broker's log has the reason" in refused.remedy
    assert "esp users" not in refused.remedy


def test_remedy_for_an_endpoint_that_is_not_believed_names_the_trust_store(
    provider: IdentityProvider, tmp_path: Path
) -> None:
    client = "sasl.oauthbearer.client.credentials.client"
    with pytest.raises(OperatorError, match="certificate verify failed") as refused:
        read_command_config(
            written(
                tmp_path,
                f"sasl.oauthbearer.token.endpoint.url={provider.url}/token",
                f"{client}.id=alice",
                f"{client}.secret={CLIENTS['alice']}",
                "sasl.login.retry.backoff.max.ms=5",
                "sasl.login.retry.backoff.ms=1",
            )
        )
    assert "ssl.truststore.… in sasl.jaas.config" in refused.value.remedy


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ((), "needs a token"),
        (("sasl.oauthbearer.token.endpoint.url=http://a/t",), "must begin with https://"),
        (("sasl.oauthbearer.token.endpoint.url=file:///no/such/file",), "/no/such/file of the token cannot be read"),
        (("sasl.oauthbearer.token.endpoint.url=https://a/t",), "a client's name and password"),
        (("sasl.oauthbearer.jwks.endpoint.url=https://a/t",), "no effect on these tools"),
        (("sasl.login.class=org.example.Login",), "no foreign classes"),
        (
            ("sasl.login.callback.handler.class=org.example.Handler", "sasl.oauthbearer.token.endpoint.url=file:///t"),
            "no foreign",
        ),
        (("sasl.oauthbearer.assertion.file=/a",), "no tokens by assertions"),
        ((f"sasl.jaas.config={MODULE} required",), "semicolon"),
        (
            ("sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required;",),
            "not the one of OAUTHBEARER",
        ),
    ],
)
def test_settings_that_give_no_token_are_refused(tmp_path: Path, lines: tuple[str, ...], words: str) -> None:
    with pytest.raises(OperatorError) as refused:
        read_command_config(written(tmp_path, *lines))
    assert words in str(refused.value)
