"""Options of programs that read topics as columns: durations, forms of values, and schemas of a registry."""
