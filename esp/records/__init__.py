"""Record batches of format 2: their header as a view over bytes, their records, their compression."""
