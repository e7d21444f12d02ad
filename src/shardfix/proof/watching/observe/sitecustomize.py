"""Python runs this at its start, before the user's script, because its folder is the first one on PYTHONPATH."""

import os
import sys

FOLDER = os.path.dirname(os.path.abspath(__file__))


def begin() -> None:
    import shardfix_observe  # type: ignore[import-not-found]

    shardfix_observe.install_from_environment()


def pass_on() -> None:
    """Let the ``sitecustomize`` that would have been found without this one run as well."""
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != FOLDER]
    this = sys.modules.pop("sitecustomize", None)
    try:
        import sitecustomize  # type: ignore[import-not-found]  # noqa: F401
    except ImportError:
        if this is not None:
            sys.modules["sitecustomize"] = this


if __name__ == "sitecustomize":
    begin()
    pass_on()
