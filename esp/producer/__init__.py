"""A producer's decisions: batches, their partitions, sequences and retries, without I/O.

One :class:`~esp.producer.producer.Producer` sends to one topic. Records, answers and the time go in; requests come out.
"""
