"""Answers that are the same on any kind of listener, of brokers and of controllers."""
