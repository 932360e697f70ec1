"""Known bugs, put back one at a time: whatever the simulator does not notice, it does not guard against.

A mutant is a small patch that is applied while its module is imported, in a process of its own. The product's code knows nothing of it.
"""
