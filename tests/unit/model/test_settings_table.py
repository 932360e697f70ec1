"""docs/settings.md is generated from the code."""

import re

import pytest

from esp.settings.broker_table import BROKER_SETTINGS
from esp.settings.group import OWN_GROUP_SETTINGS
from esp.settings.known import known_settings
from esp.settings.topic_table import OWN_TOPIC_SETTINGS
from tools.settings_table import BEGIN, DOCUMENT, END, tables, with_tables


def test_the_tables_of_settings_are_up_to_date():
    document = DOCUMENT.read_text()
    assert with_tables(document) == document, "run python -m tools.settings_table"


def test_every_setting_of_kafka_and_every_one_of_ours_stands_in_them_once():
    sections = dict(re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", tables(), re.MULTILINE | re.DOTALL))
    rows = {title: re.findall(r"^\| `([^`]+)`", section, re.MULTILINE) for title, section in sections.items()}
    nodes = [name for title in rows if title.startswith("Nodes") for name in rows[title]]
    assert len(set(nodes)) == len(nodes)
    assert known_settings("broker").keys() | BROKER_SETTINGS.keys() <= set(nodes)
    assert set(rows["Topics"]) == known_settings("topic").keys() | OWN_TOPIC_SETTINGS
    assert set(rows["Groups"]) == known_settings("group").keys() | OWN_GROUP_SETTINGS.keys()


def test_a_document_without_the_markers_is_not_written():
    assert with_tables(f"a{BEGIN}old{END}b").startswith(f"a{BEGIN}")
    with pytest.raises(ValueError, match="no place"):
        with_tables("nothing")
