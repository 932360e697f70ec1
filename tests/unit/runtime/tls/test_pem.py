from esp.runtime.tls.pem import join_pem, split_pem
from tests.models.certificates import Authority

ISSUED = Authority().issue()
TEXT = ISSUED.key_pem() + ISSUED.certificate_pem


def test_objects_are_found_in_their_order_whatever_stands_between_them():
    blocks = split_pem(f"subject=a\n{TEXT}trailing")
    assert [block.label for block in blocks] == ["PRIVATE KEY", "CERTIFICATE"]
    assert [block.is_key for block in blocks] == [True, False]
    assert join_pem(blocks) == TEXT


def test_line_breaks_may_be_any_blanks_as_in_a_file_of_properties():
    assert join_pem(split_pem(" ".join(TEXT.split("\n")))) == TEXT


def test_what_is_not_complete_is_no_object():
    assert split_pem(TEXT[:100]) == []
