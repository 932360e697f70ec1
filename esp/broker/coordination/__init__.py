"""Parts that all kinds of coordinators have in common: a partition of an internal topic is loaded, appended to and watched."""
