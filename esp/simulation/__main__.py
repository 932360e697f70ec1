"""``python -m esp.simulation``."""

from esp.simulation.command import app

app()
