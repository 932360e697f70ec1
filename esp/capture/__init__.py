"""Capture: ranges of a topic's offsets as Parquet files, each committed before it gets its name, without gap and overlap."""
