"""`esp tokens`: delegation tokens, created, listed, renewed and expired."""
