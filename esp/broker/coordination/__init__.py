"""Parts that the coordinators of groups and of transactions share: a partition of an internal topic is loaded, appended to and watched."""
