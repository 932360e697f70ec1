import pytest

from tools.api_table import BEGIN, DOCUMENT, END, table, with_table


def test_the_table_in_the_documentation_is_up_to_date():
    document = DOCUMENT.read_text()
    assert with_table(document) == document, "run python -m tools.api_table"


def test_a_stale_table_is_replaced_and_the_rest_kept():
    assert with_table(f"a\n{BEGIN}\nold\n{END}\nb") == f"a\n{BEGIN}\n{table()}\n{END}\nb"


def test_a_document_without_a_place_for_the_table_is_an_error():
    with pytest.raises(ValueError, match="no place"):
        with_table(f"{BEGIN} and no end")


def test_the_one_api_that_advertises_more_than_it_serves_shows_it():
    assert "| 0 | Produce | 3-13 | 0-13 | 9 | broker |" in table()
