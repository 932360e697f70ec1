"""SQL over topics: DuckDB sees them as tables, and reads their records as Arrow, from a cluster or from the segments of a stopped node."""
