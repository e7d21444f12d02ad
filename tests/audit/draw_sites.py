"""Draw loaders of real projects at random, for a person to check what `shardfix scan` says of them.

    python tests/audit/draw_sites.py --seed 3 --count 100 PROJECT...

Each project is a checked-out repository. Of all its loaders, right and foreign ones included, each is as likely to be
drawn as any other; one seed draws the same loaders as long as the projects and their loaders are the same. Each line
says where a loader is and what is claimed of it, with an empty column for the verdict of the person.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

COLUMNS = ("project", "path", "line", "owner", "role", "sampler", "verdict", "why", "codes", "true")


def claims(project: Path) -> Iterator[dict[str, Any]]:
    """What a scan says of each loader of a project.

    Raises:
        RuntimeError: the scan ended with an error and no report.
    """
    command = [sys.executable, "-m", "shardfix", "scan", str(project), "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not done.stdout:
        raise RuntimeError(done.stderr)
    report = json.loads(done.stdout)
    for part in report.get("projects", [report]):
        for site in part["sites"]:
            codes = " ".join(f["code"] for f in site["findings"])
            named = {key: site[key] for key in ("path", "line", "owner", "role", "sampler", "verdict", "why")}
            yield {"project": project.name, **named, "codes": codes, "true": ""}


def draw(sites: Sequence[dict[str, Any]], seed: int, count: int) -> list[dict[str, Any]]:
    """``count`` loaders, or all if they are fewer, in the order of projects, files and lines."""
    ordered = sorted(sites, key=lambda s: (s["project"], s["path"], s["line"]))
    chosen = random.Random(seed).sample(range(len(ordered)), min(count, len(ordered)))
    return [ordered[i] for i in sorted(chosen)]


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the drawn loaders to standard output, tab-separated."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("projects", nargs="+", type=Path, metavar="PROJECT")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    given = parser.parse_args(arguments)
    sites = [site for project in given.projects for site in claims(project)]
    writer = csv.DictWriter(sys.stdout, COLUMNS, delimiter="\t", lineterminator="\n")
    writer.writeheader()
    writer.writerows(draw(sites, given.seed, given.count))


if __name__ == "__main__":
    main()
