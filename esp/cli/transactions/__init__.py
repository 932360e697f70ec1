"""`esp transactions`: listed, described, found where they hang, and ended there."""
