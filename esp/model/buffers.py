"""Bytes on their way: received, stored, sent."""

Buffer = bytes | bytearray | memoryview
"""Whatever holds bytes. A view may be of a mapped file: code that reads it works with each of the three."""
