"""The exactly-once sink of Spark: one short transaction for each batch and target partition, with the batch's number committed in it."""
