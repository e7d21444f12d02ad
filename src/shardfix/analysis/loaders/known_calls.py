"""What calls that are known by their name alone do with a loader they are given."""

from __future__ import annotations

# They give its batches, one after another.
ITERATES = frozenset(
    {"enumerate", "zip", "iter", "reversed", "map", "list", "tuple", "islice", "cycle", "chain", "sorted"}
)
# They give its batches, and show how far they are.
PROGRESS = frozenset(
    {"tqdm", "trange", "track", "progress_bar", "ProgressBar", "log_every", "tqdm_notebook", "Progbar"}
)
# They look at it.
HARMLESS = frozenset({"print", "isinstance", "type", "id", "hasattr", "getattr", "callable", "str", "repr"})
