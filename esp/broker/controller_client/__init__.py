"""A node as a client of the active controller: its channels, a broker's registration and heartbeats, blocks of producer ids."""
