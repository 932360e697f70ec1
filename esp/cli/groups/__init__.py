"""`esp groups`: listed, described, deleted, and their offsets put elsewhere."""
