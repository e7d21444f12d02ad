"""The program that any interpreter with torch is started with: what runs the ranks, and nothing else of this tool.

``python worker.py jobs RESULTS [FOLDER]`` runs loaders (``jobs.py``), ``python worker.py calling RESULTS`` a user's own
factories (``calling.py``). RESULTS is a path or ``fd:N``; JSON lines go there, and come from standard input. FOLDER is
removed when standard input ends, for a parent that was killed and can't.

The modules of this folder are imported as ``shardfix_proof.running``, not by way of ``shardfix``, which the interpreter
may not have and could not read: they keep to Python 3.8.
"""

from __future__ import annotations

import importlib
import os
import shutil
import sys
import types


def run(module: str, target: str) -> int:
    """The exit status of ``main(RESULTS)`` of a module beside this one."""
    folder = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if entry and os.path.abspath(entry) != folder]
    package = types.ModuleType("shardfix_proof")
    package.__path__ = [os.path.dirname(folder)]
    sys.modules["shardfix_proof"] = package
    if target.startswith("fd:"):
        results = int(target[3:])
    else:
        results = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    status: int = importlib.import_module(f"shardfix_proof.running.{module}").main(results)
    return status


if __name__ == "__main__":
    status = 1
    try:
        status = run(sys.argv[1], sys.argv[2])
        if len(sys.argv) > 3:
            shutil.rmtree(sys.argv[3], ignore_errors=True)
    except KeyboardInterrupt:
        status = 130
    except BaseException:
        import traceback

        traceback.print_exc()
    sys.stderr.flush()
    os._exit(status)  # torch's own way out takes 0.4 s
