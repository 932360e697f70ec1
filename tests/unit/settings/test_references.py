"""Values that stand elsewhere than in the settings file."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esp.settings.references import Places, ReferenceRefusedError, resolve_references

KIND = "org.apache.kafka.common.config.provider."
PROVIDERS = {
    "config.providers": "file, dir,env",
    "config.providers.file.class": KIND + "FileConfigProvider",
    "config.providers.dir.class": KIND + "DirectoryConfigProvider",
    "config.providers.env.class": KIND + "EnvVarConfigProvider",
}
FILES = {"/s/a.properties": "key=value\npass: a\\u0062c\n", "/s/token": "from a file", "/t/token": "another"}


def read_text(path):
    try:
        return FILES[path]
    except KeyError as error:
        raise FileNotFoundError(2, "No such file or directory") from error


def resolve(text, **changes):
    places = Places(read_text, {"HOME": "/home-of-user", "SECRET": "from the environment"})
    settings = PROVIDERS | {name.replace("_", "."): value for name, value in changes.items()}
    return resolve_references({**settings, "x": text}, places)["x"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("plain", "plain"),
        ("${file:/s/a.properties:key}", "value"),
        ("${file:/s/a.properties:pass}", "abc"),
        ("${dir:/s:token}", "from a file"),
        ("${env:SECRET}", "from the environment"),
        ('user="${env:HOME}" password="${dir:/s:token}";', 'user="/home-of-user" password="from a file";'),
        ("$1 ${} ${none} $${env:HOME}", "$1 ${} ${none} $/home-of-user"),
    ],
)
def test_a_reference_becomes_its_value(text, value):
    assert resolve(text) == value


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("${file:/s/a.properties:other}", "there is no such name in the file"),
        ("${file:/s/none:key}", "the file cannot be read: No such file or directory"),
        ("${file:key}", "the file cannot be read"),
        ("${dir:/s:none}", "the file cannot be read"),
        ("${dir:/s:../t/token}", "a name without a path"),
        ("${env:NONE}", "there is no such variable"),
        ("${env:/path:SECRET}", "there is no such variable"),
        ("${vault:secret/x:key}", "config.providers names file, dir, env, not vault"),
    ],
)
def test_a_reference_that_has_no_value_is_refused_and_does_not_become_the_password(text, words):
    with pytest.raises(ReferenceRefusedError) as refused:
        resolve(text)
    assert refused.value.name == "x"
    assert words in refused.value.reason


def test_paths_and_names_may_be_limited():
    allowed = {
        "config.providers.file.param.allowed.paths": "/s/a.properties,/u",
        "config.providers.dir.param.allowed.paths": "/s",
    }
    allowed |= {"config.providers.env.param.allowlist.pattern": "SEC.*"}
    assert resolve("${file:/s/a.properties:key}", **allowed) == "value"
    assert resolve("${dir:/s:token}${env:SECRET}", **allowed) == "from a filefrom the environment"
    for text in (
        "${file:/s/../t/x:key}",
        "${file:/s/a.properties2:key}",
        "${dir:/t:token}",
        "${dir:/s/../t:token}",
        "${env:HOME}",
    ):
        with pytest.raises(ReferenceRefusedError, match="allowed"):
            resolve(text, **allowed)


def test_a_pattern_of_names_that_is_none_is_refused():
    with pytest.raises(ReferenceRefusedError, match="no regular expression"):
        resolve("${env:SECRET}", **{"config.providers.env.param.allowlist.pattern": "("})


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"config.providers": "file,dir,env,vault"}, "config.providers.vault.class"),
        ({"config.providers.env.class": "com.example.Vault"}, "config.providers.env.class"),
        ({"config.providers.file.param.unknown": "1"}, "config.providers.file.param.unknown"),
        ({"config.providers": "file,dir"}, "config.providers.env.class"),
    ],
)
def test_a_provider_that_there_is_not_is_refused(changes, name):
    with pytest.raises(ReferenceRefusedError) as refused:
        resolve("plain", **changes)
    assert refused.value.name == name


def test_no_message_holds_what_a_file_does():
    FILES["/s/broken"] = "secret\\u00"
    with pytest.raises(ReferenceRefusedError) as refused:
        resolve("${file:/s/broken:secret}")
    assert refused.value.reason == "${file:/s/broken:secret}: the file is no text of properties"


@given(st.text(st.characters(exclude_characters="$")))
def test_texts_without_references_stay_as_they_are(text):
    assert resolve(text) == text
