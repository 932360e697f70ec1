"""`esp users`: users with SCRAM credentials, listed, added, given other passwords, and deleted."""
