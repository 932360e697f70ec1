"""The vocabulary that every layer shares: ids, offsets, partition state, errors, settings. Imports nothing of ours."""
