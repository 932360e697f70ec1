"""The misbehaving bodies of the seams, for tests that replay by seed."""
