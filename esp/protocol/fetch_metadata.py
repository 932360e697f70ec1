"""How requests and answers name an incremental fetch session, and where they are in it (KIP-227: Kafka's FetchMetadata)."""

from typing import Final

NO_SESSION: Final = 0
"""Session id of a client that has none."""

INITIAL_EPOCH: Final = 0
"""Epoch of a full request that wants a session."""

FINAL_EPOCH: Final = -1
"""Epoch of a full request that wants none, and ends the one it names."""
