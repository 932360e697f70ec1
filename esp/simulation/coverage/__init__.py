"""Which functions of the product no simulated run entered: what the simulator does not run, it does not test.

Each function of the rooms in question notes its name when it is entered; the notes are put in while a module is imported, in processes of
their own. The product's code knows nothing of it.
"""
