"""One module per API key of the controller listeners: wire message in, a call of the quorum or the active controller, wire message out."""
