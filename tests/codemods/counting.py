"""A program that counts right answers, with a line in its loop and others around it."""

from __future__ import annotations

HEAD = (
    "import functools\nimport numpy as np\nimport operator\nimport torch\nimport torch.distributed as dist\n"
    "from torch import nn\nfrom torch.utils.data import DataLoader\n"
    "dist.init_process_group()\n"
)
LOADER = "val_loader = DataLoader(val_set, batch_size=4)\n"


def counting(
    *body: str, before: str = "", returns: str = "n", head: str = "", call: str = "validate(model, val_loader)"
) -> str:
    """The text of a program.

    Args:
        body: lines of the loop.
        before: lines before it; ``head``: of the file, where ``model`` and ``val_set`` may be made.
        returns: what the evaluation returns; ``n`` is the count of right answers.
        call: what runs it.
    """
    lines = [f"    {line}\n" for line in before.splitlines()]
    lines += ["    n = 0\n", "    for x, y in loader:\n"]
    lines += [f"        {line}\n" for text in body for line in text.splitlines()]
    lines += ["        n += (model(x).argmax(1) == y).sum().item()\n", f"    return {returns}\n"]
    function = "@torch.no_grad()\ndef validate(model, loader):\n    model.eval()\n" + "".join(lines)
    return f"{HEAD}{head}{LOADER}{function}{call}\n"


__all__ = ["counting"]
