"""``esp`` with bugs: it fails while it has a password in its hands that asks for it, within a callback of the loop and within a thread.

python -m tests.integration.crashing_node broker ...
"""

import resource
from typing import Any, Final

from esp.__main__ import main
from esp.authentication import plain

CRASH: Final = "this makes it crash"
"""Passwords that end so."""

_conclude, _is_password = plain._conclude, plain.is_password


def conclude(login: plain.PlainLogin, is_right: bool) -> Any:
    """Fail in the callback that has received the password."""
    assert not login.password.endswith(CRASH), f"a bug with {login.user}"
    return _conclude(login, is_right)


def is_password(mechanism: Any, password: str, credential: Any) -> bool:
    """Fail in the thread that checks the password."""
    if password.endswith(CRASH):
        raise KeyError(mechanism)
    return _is_password(mechanism, password, credential)


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # what the system itself writes of a crash holds all memory
    plain._conclude, plain.is_password = conclude, is_password  # type: ignore[assignment]
    main()
