"""Record batches as Arrow columns, and columns as record batches: numpy finds all fields at once, pyarrow moves the bytes. Pure."""
