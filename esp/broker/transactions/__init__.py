"""The drivers of the transactions' coordinators, and the questions that partition leaders ask them."""
