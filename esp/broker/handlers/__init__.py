"""One module per API key: wire message in, a call of a core, wire message out."""
