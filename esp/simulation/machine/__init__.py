"""Simulated machines: clock, event loop, network and disk, which misbehave by seed."""
