"""Functions of the product that no simulated run entered: the simulator does not test what it does not run.

Each function of the rooms in question notes its name when it is entered; the notes are put in while a module is imported, in processes of
their own. The product's code knows nothing of it.
"""
