"""What the tests of ESP and of its users need: an embedded node."""
