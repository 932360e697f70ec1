"""Keys derived from passwords, which the process of a simulation derives once.

The thousands of rounds of a derivation are there to cost time, and give the same key each time; the clients of all runs log in with the
same few passwords again and again. The product itself must not keep what it derives from a secret.
"""

import contextlib
import hashlib
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

KEPT: Final = 4096
"""Derived keys that a process remembers."""

_derive: Final = lru_cache(KEPT)(hashlib.pbkdf2_hmac)


@contextlib.contextmanager
def remembered() -> Iterator[None]:
    """Derive each key once, until the block ends; the next block knows the keys of this one."""
    derive = hashlib.pbkdf2_hmac
    hashlib.pbkdf2_hmac = _derive  # type: ignore[assignment]  # of the same arguments, and pure
    try:
        yield
    finally:
        hashlib.pbkdf2_hmac = derive
