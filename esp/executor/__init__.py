"""The Python processes of Spark's executors: each does one task after another, of the source and of the sinks."""
