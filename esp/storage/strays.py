"""Replicas that were put aside because the metadata did not know them (REASSIGN-4): a broker's that was away while they went elsewhere.

They are kept for the operator, as Kafka keeps them: nobody can tell whether they hold the only copy of something. They are never served,
listed, counted or removed, and a replica of the same partition that comes back is begun anew beside them. So somebody has to hear of them.
"""

import logging
from collections.abc import Collection

from esp.ports.disk import Disk

_logger = logging.getLogger(__name__)


def warn_of_strays(disk: Disk, directory: str, strays: Collection[str]) -> None:
    """Say at each start that there are some in a data directory, and how large they are; ``strays`` are their paths.

    Raises:
        OSError: the device failed.
    """
    if strays:
        size = sum(disk.stat(f"{path}/{name}").size for path in strays for name in disk.listdir(path))
        _logger.warning(
            "%s: %d directories that end in -stray, %d bytes: replicas that went to other nodes, or of deleted topics; they are kept until "
            "you remove them",
            directory,
            len(strays),
            size,
        )
