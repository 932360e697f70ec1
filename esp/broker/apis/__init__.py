"""One module per API: wire message in, a call of a core, wire message out; for the listeners of brokers and those of controllers."""
