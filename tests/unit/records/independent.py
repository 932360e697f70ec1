"""Record batches as kafka-python writes and reads them: implementations that know nothing of ours."""

import warnings

with warnings.catch_warnings():
    warnings.simplefilter(
        "ignore", DeprecationWarning
    )  # kafka-python 3.0 loads its schemas by a deprecated function of importlib
    from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
    from kafka.record.util import decode_varint, encode_varint

__all__ = ["DefaultRecordBatch", "DefaultRecordBatchBuilder", "decode_varint", "encode_varint"]
