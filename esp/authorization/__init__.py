"""Authorisation: the rules of access in force, and what they allow. Pure; a node without an authorizer does not load it."""
