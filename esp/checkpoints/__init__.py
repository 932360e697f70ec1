"""Checkpoints of Spark's streaming queries, read and changed from outside of Spark.

The form of a checkpoint is Spark's own (``OffsetSeqLog``, ``CommitLog``, ``StreamMetadata``): ``metadata`` has the query's id,
``offsets/N`` where batch N ends in each source, ``commits/N`` is there once batch N is done, ``state/`` holds the state of operators.
"""
