"""Support for the tests of ESP and of its users: an embedded node."""
