"""Checkpoints as Spark 4.0 writes them to a local directory."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

QUERY_ID: Final = "e53c44ba-6048-4776-9a18-571d40c99dad"
TERMS: Final = '{"batchWatermarkMs":0,"batchTimestampMs":1795691145202,"conf":{"spark.sql.shuffle.partitions":"4"}}'

Topics = Mapping[str, Mapping[str, int]]


def write_checkpoint(
    directory: Path, *batches: Topics | str, committed: int | None = None, age_s: float = 60.0
) -> Path:
    """Write the batches from 0 on; all are done, or ``committed`` of them. A text stands for a source of another kind."""
    for name in ("offsets", "commits", "sources/0"):
        (directory / name).mkdir(parents=True, exist_ok=True)
    _write(directory / "metadata", json.dumps({"id": QUERY_ID}))
    for number, batch in enumerate(batches):
        line = batch if isinstance(batch, str) else json.dumps(batch, separators=(",", ":"))
        _write(directory / "offsets" / str(number), f"v1\n{TERMS}\n{line}")
        if committed is None or number < committed:
            _write(directory / "commits" / str(number), 'v1\n{"nextBatchWatermarkMs":0}')
    let_age(directory, age_s)
    return directory


def let_age(directory: Path, age_s: float) -> None:
    """Make all files of a checkpoint so old."""
    for path in directory.rglob("*"):
        changed_s = path.stat().st_mtime - age_s
        os.utime(path, (changed_s, changed_s))


def _write(path: Path, text: str) -> None:
    path.write_text(text)
    path.with_name(f".{path.name}.crc").write_bytes(b"crc\x00\x00\x00\x00\x00")
