"""The cluster's metadata as a state machine: requests are decided into records, and only replaying records changes state."""
