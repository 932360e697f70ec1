"""Authentication by SASL: the exchanges of its mechanisms, the states of a connection. Pure; a node without SASL does not load it."""
