"""Simulated clients: they speak the real protocol through the codecs, as real clients do, and remember what they were told."""
