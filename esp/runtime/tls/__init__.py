"""TLS over the connections of the network: keys and certificates from their stores, handshakes, and encryption in turns."""
