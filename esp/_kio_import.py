"""The first import of kio, made cheap.

kio's vocabulary imports hypothesis where it is installed, to register strategies for tests: 100 ms and 20 MB that a node has no
use for. :func:`import_kio` hides hypothesis while kio's vocabulary loads, unless hypothesis was loaded before (then a test runs, and
wants the strategies).
"""

import importlib
import sys


def import_kio() -> None:
    """Load kio's vocabulary, without hypothesis if nobody loaded that before."""
    if "kio.static.primitive" in sys.modules:
        return
    hidden = "hypothesis" not in sys.modules
    if hidden:
        sys.modules["hypothesis"] = None  # type: ignore[assignment]  # how Python is told that a module cannot be imported
    try:
        importlib.import_module("kio.static.primitive")
    except ModuleNotFoundError as error:
        if error.name != "kio":
            raise  # otherwise this is an executor of Spark's, which reads columns and needs nothing of kio's
    finally:
        if hidden:
            del sys.modules["hypothesis"]
