"""The vocabulary that every layer shares: ids, partition state, errors, rules of access, credentials. Imports nothing of ours."""
