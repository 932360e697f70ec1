"""The entities that ESP persists and the wire protocol library does not have: records of the metadata log and its control batches."""
