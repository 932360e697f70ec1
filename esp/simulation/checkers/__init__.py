"""Invariants that must hold in every run, seen from the world outside: files, answers, and the state of every node.

Each check goes by the name of an invariant; ``docs/SIMULATION.md`` lists them.
"""
