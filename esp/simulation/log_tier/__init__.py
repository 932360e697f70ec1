"""The tier of one log: the product's storage on a simulated disk, by seed."""
