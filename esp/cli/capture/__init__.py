"""`esp capture`: topics into Parquet files, each record once; started, looked at, and verified."""
