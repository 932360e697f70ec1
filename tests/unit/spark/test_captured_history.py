"""Options that a history refuses, before a cluster is asked."""

from typing import Any

import pytest

from esp.options.errors import OptionError
from esp.spark.captured_history import history

NO_SESSION: Any = None


@pytest.mark.parametrize(
    "name", ["subscribe", "assign", "startingOffsets", "startingTimestamp", "endingOffsets", "endingTimestamp"]
)
def test_options_that_choose_records_are_refused(name: str) -> None:
    with pytest.raises(OptionError, match=f"option {name}=7: a history chooses it by itself: remove it"):
        history(NO_SESSION, "t", "/nowhere", {"kafka.bootstrap.servers": "127.0.0.1:1", name: "7"})
