"""Values of records as columns: JSON and Avro, decoded to Arrow with the meaning of Spark's `from_json` and `from_avro`. Pure."""
