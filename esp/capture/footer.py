"""The footer of a captured file: what it says of itself."""

import json
from typing import Any, NamedTuple

import pyarrow as pa

from esp.capture.directory import Directory
from esp.capture.file_writer import METADATA_KEY
from esp.consumer.errors import ConsumerError


class Footer(NamedTuple):
    """A footer.

    Attributes:
        topic: the topic.
        topic_id: its id, in hexadecimal digits.
        rows: the number of the file's records.
    """

    topic: str
    topic_id: str
    rows: int


def read_footer(directory: Directory, path: str) -> Footer:
    """Return the footer of a file.

    Raises:
        ConsumerError: the file is not whole, or no captured one.
    """
    try:
        with directory.open_parquet(path) as file:
            facts: Any = json.loads((file.schema_arrow.metadata or {}).get(METADATA_KEY, b"null"))
            return Footer(facts["topic"], facts["topicId"], file.metadata.num_rows)
    except (OSError, ValueError, TypeError, KeyError, pa.ArrowException) as error:
        raise ConsumerError(
            f"{path}: it is not whole, or was not written by a capture: remove it from the directory: {error}"
        ) from error
