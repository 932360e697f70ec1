"""The seams of a node: everything outside it is reached through the protocols of this package.

Production passes the bodies of :mod:`esp.runtime`; the simulator passes bodies that misbehave by seed. Nothing else under
``esp/`` calls the clock, a random source, a socket or a file (a lint contract in ``pyproject.toml`` checks that for the cores).
"""
