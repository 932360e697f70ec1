"""`esp brokers`: listed, drained and removed."""
