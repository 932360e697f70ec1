"""Names as Java writes them; that they are Java's is seen in tests/conformance/test_java_names.py."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esp.model.distinguished_name import subject_of, write_name
from tests.models.certificates import Authority, name_of

AUTHORITY = Authority()


@pytest.mark.parametrize(
    "text",
    [
        "CN=carol,OU=Data,O=Org Ltd,C=DE",
        'CN=a\\,b\\=c\\+d\\;e\\<f\\>g\\#h\\"i\\\\j',
        "CN=\\ leading and trailing\\ ",
        "CN=größe 😀",
        "CN=a+OU=b,DC=example,UID=7,STREET=s,L=l,ST=t",
    ],
)
def test_the_subject_is_written_as_rfc_2253_has_it(text):
    assert subject_of(AUTHORITY.issue(text).der) == text


def test_kinds_that_java_has_no_keyword_for_are_numbers_and_their_values_hexadecimal():
    assert subject_of(AUTHORITY.issue("CN=a,1.2.840.113549.1.9.1=x").der) == "CN=a,1.2.840.113549.1.9.1=#160178"


def test_a_certificate_without_a_subject_has_the_empty_name():
    assert write_name(name_of("").public_bytes()) == ""


@given(st.binary(max_size=60))
def test_what_is_no_certificate_is_a_value_error_and_nothing_else(data):
    with pytest.raises(ValueError, match=r"element|stands in place|fields"):
        subject_of(data)


@given(st.integers(0, 10_000), st.integers(0, 255))
def test_a_certificate_with_a_changed_byte_gives_a_name_or_a_value_error(place, value):
    data = bytearray(AUTHORITY.issue().der)
    data[place % len(data)] = value
    with suppress(ValueError):
        assert isinstance(subject_of(bytes(data)), str)
