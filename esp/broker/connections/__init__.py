"""Connections: those of clients, bytes in and answers out, and those of this node to others."""
