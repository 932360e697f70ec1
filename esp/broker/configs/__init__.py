"""Settings, as requests describe and change them."""
