"""Scenes of transactions: each brings a transactional id into a state, sends one request, and looks at the state afterwards."""
