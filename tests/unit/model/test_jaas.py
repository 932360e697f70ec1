import pytest
from hypothesis import given
from hypothesis import strategies as st

from esp.model.jaas import LoginModule, parse_jaas_config

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def test_module_and_options_are_read() -> None:
    config = parse_jaas_config(f'{PLAIN} required username="admin" password="pass word" user_bob=bob-secret;')
    assert config.module is LoginModule.PLAIN
    assert config.options == {"username": "admin", "password": "pass word", "user_bob": "bob-secret"}


def test_text_may_stand_on_many_lines_with_comments() -> None:
    config = parse_jaas_config(
        f"// the node's own\n{PLAIN}\n  REQUIRED /* flag */\n username='a'\n\tpassword=\"//no comment\" ;\n"
    )
    assert config.options == {"username": "a", "password": "//no comment"}


def test_escapes_are_those_of_java() -> None:
    config = parse_jaas_config(f'{PLAIN} required password="a\\"b\\\\c\\td\\101" ;')
    assert config.options == {"password": 'a"b\\c\tdA'}


@given(st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"])))
def test_any_password_can_be_quoted(password: str) -> None:
    quoted = password.replace("\\", "\\\\").replace('"', '\\"')
    assert parse_jaas_config(f'{PLAIN} required password="{quoted}";').options == {"password": password}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it names no login module"),
        (f"{PLAIN};", "the control flag is missing"),
        (PLAIN, "the control flag is missing"),
        (f'{PLAIN} username="a";', "the control flag is missing"),
        (f"{PLAIN} required username;", "the option username has no value"),
        (f"{PLAIN} required username=;", "the option username has no value"),
        (f"{PLAIN} required username=", "the option username has no value"),
        (f"{PLAIN} required =a;", "an option's name is missing"),
        (f'{PLAIN} required username="a"', "does not end with a semicolon"),
        (f"{PLAIN} required; {PLAIN} required;", "it has 2 login modules"),
        (f'{PLAIN} required username="a;', "has no other one"),
        (f"{PLAIN} required port=9092;", "stands in quotation marks"),
        (f"{PLAIN} required file=/etc/esp;", "stands in quotation marks"),
    ],
)
def test_malformed_text_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_jaas_config(text)


@pytest.mark.parametrize(
    "name", ["com.sun.security.auth.module.JndiLoginModule", "com.sun.security.auth.module.LdapLoginModule", "a.Plain"]
)
def test_foreign_login_modules_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"the login module {name} is none of"):
        parse_jaas_config(f'{name} required user.provider.url="ldap://elsewhere";')


def test_no_error_quotes_a_password() -> None:
    for end in ("", '"', '" extra', '" = ;', '"; and'):
        with pytest.raises(ValueError, match=r".") as caught:
            parse_jaas_config(f'{PLAIN} required password="hunter2{end}')
        assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("hunter2;", "it begins with none of"),
        (f"{PLAIN} required hunter2;", "the word at character .* is no option with a value"),
        (f"{PLAIN} required username=a password=my hunter2;", "in quotation marks"),
        (f"{PLAIN} required username=a password=my hunter2 user_a=my;", "in quotation marks"),
        (f"{PLAIN} required username=a password=my;hunter2;", "it begins with none of"),
    ],
)
def test_no_error_quotes_the_rest_of_a_password_that_lacks_its_quotation_marks(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as caught:
        parse_jaas_config(text)
    assert "hunter2" not in str(caught.value)


def test_text_of_a_config_shows_no_option() -> None:
    assert "hunter2" not in repr(parse_jaas_config(f'{PLAIN} required password="hunter2";'))


def test_option_that_is_missing_is_named() -> None:
    with pytest.raises(ValueError, match='the login module needs the option username="…"'):
        parse_jaas_config(f"{PLAIN} required;").option("username")


def test_only_scram_has_delegation_tokens() -> None:
    package = "org.apache.kafka.common.security"
    told = 'required username="a" password="b"'
    for text, is_by_token in (
        (f'{package}.scram.ScramLoginModule {told} tokenauth="true";', True),
        (f"{package}.scram.ScramLoginModule {told} tokenauth=True;", True),
        (f'{package}.scram.ScramLoginModule {told} tokenauth="false";', False),
        (f"{package}.scram.ScramLoginModule {told};", False),
        (f'{package}.plain.PlainLoginModule {told} tokenauth="true";', False),
    ):
        assert parse_jaas_config(text).is_by_token is is_by_token, text
