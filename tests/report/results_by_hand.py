"""Results as the engine would hand them over, one of each kind of thing that can be said."""

from __future__ import annotations

from pathlib import Path

from shardfix.analysis.model import Change, Evidence, Finding, Location, SiteReport
from shardfix.proof.model import Proof, ShardMap, StandIn
from shardfix.result import FileChange, Problem, RunResult, Suppression
from shardfix.rewrite.edits import DropKeyword, Span

DOUBLE = Location("train.py", 4, 10)
UNSAFE = Location("train.py", 9, 10)
RIGHT = Location("train.py", 20, 1)
REFUSED = Location("eval.py", 3, 5)
THEIRS = Location("lit.py", 7, 16)
KEPT = Location("old.py", 2, 1)

BEFORE = b"x = 1\nloader = DataLoader(ds, sampler=DistributedSampler(ds))\n"
AFTER = b"x = 1\nloader = DataLoader(ds, shuffle=True)\n"


def change(site: Location = DOUBLE, *, code: str = "SHD201", tier: str = "safe", reason: str = "") -> Change:
    return Change(
        site,
        "remove_redundant_sampler",
        (code,),
        tier,  # type: ignore[arg-type]
        "remove the DistributedSampler: accelerate shards the loader again",
        (DropKeyword("train.py", Span(15, 40), "sampler"),),
        reason=reason,
        consequences=("an epoch has 8 steps per rank instead of 4",),
        evidence=(Evidence(Location("train.py", 6, 1), "loader = accelerator.prepare(loader)"),),
    )


def site(location: Location, verdict: str, *, owner: str = "accelerate", **rest: object) -> SiteReport:
    return SiteReport(
        location,
        "train",
        owner,  # type: ignore[arg-type]
        (Evidence(Location(location.path, 6, 1), "loader = accelerator.prepare(loader)"),),
        "DistributedSampler",
        verdict,  # type: ignore[arg-type]
        **rest,  # type: ignore[arg-type]
    )


def proof(verdict: str = "proven", location: Location = DOUBLE) -> Proof:
    return Proof(
        str(location),
        verdict,  # type: ignore[arg-type]
        () if verdict == "proven" else ("rank 0 and rank 1 both read 3",),
        {"disjoint": "held: 3 padded", "covered": "held"},
        padded=3,
        control="the original shows sharded-twice",
        stand_ins=(StandIn("args.batch_size", "8"),),
        map_before=ShardMap(2, 4, (((0,),), ((2,),)), (0, 1, 2, 3)),
        map_after=ShardMap(2, 4, (((0, 2),), ((1, 3),)), (0, 1, 2, 3)),
    )


def everything(root: Path, *, written: bool = False) -> RunResult:
    double, unsafe = change(), change(UNSAFE, code="SHD301", tier="unsafe", reason="up to 1 sample counted twice")
    gone = change(Location("gone.py", 1, 1))
    return RunResult(
        root,
        sites=(
            site(
                REFUSED,
                "refused",
                owner="unknown",
                findings=(Finding("SHD901", REFUSED, "prepared in one branch only", (), "say the owner"),),
            ),
            site(Location("gone.py", 1, 1), "edit", changes=(gone,)),
            site(THEIRS, "not-ours", owner="lightning", why="Lightning shards it"),
            site(KEPT, "kept", why="keep[SHD201]: on purpose"),
            site(DOUBLE, "edit", changes=(double,), findings=(Finding("SHD201", DOUBLE, "sharded twice"),)),
            site(UNSAFE, "edit", changes=(unsafe,)),
            site(
                RIGHT, "right", why="one synchronised draw", findings=(Finding("SHD703", RIGHT, "ranks seeded apart"),)
            ),
        ),
        changes=(double,),
        dropped=((gone, "refuted: see the proof"),),
        files=(FileChange("train.py", BEFORE, AFTER), FileChange("shard_check.py", None, b"new\n")),
        problems=(Problem("bad.py:3:7", "invalid syntax", "correct it"),),
        notes=(Finding("SHD710", Location("launch.py", 1, 1), "local rank used as rank", (), "use the global rank"),),
        skipped=(("venv", "virtual environment"),),
        suppressions=(
            Suppression("old.py:2", ("SHD201",), "on purpose", True),
            Suppression("old.py:9", ("SHD301",), "", False),
        ),
        proofs=(proof(), proof("refuted", Location("gone.py", 1, 1))),
        written=written,
        scanned_files=6,
    )
