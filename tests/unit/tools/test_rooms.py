from tools import rooms


def make_package(path, told):
    path.mkdir()
    (path / "__init__.py").write_text(f'"""{told}"""\n')


def test_the_table_has_a_row_for_each_package_with_the_first_paragraph_of_its_docstring(tmp_path):
    make_package(tmp_path / "house", "A house.")
    make_package(tmp_path / "house" / "cellar", "Coal | wine,\nand ``rats``.\n\nNobody goes there.\n")
    assert rooms.table(tmp_path / "house").splitlines()[3:] == [
        "| `house/` | A house. |",
        "| `house/cellar/` | Coal \\| wine, and `rats`. |",
    ]


def test_a_listing_has_the_first_sentence_of_each_module(tmp_path):
    make_package(tmp_path / "house", "A house.")
    (tmp_path / "house" / "door.py").write_text('"""The way in. It squeaks."""\n')
    (tmp_path / "house" / "stairs.py").write_text('"""The way up."""\n')
    assert list(rooms.listing(tmp_path / "house")) == ["door    The way in.", "stairs  The way up."]
