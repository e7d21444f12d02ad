"""Watched loaders on a page and as JSON: who reads, the verdict, its cause and what to do, the run's ending."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from jsonschema import Draft202012Validator

import shardfix.report
from shardfix.proof.judging.causes import CAUSES
from shardfix.proof.judging.endings import RunVerdict
from shardfix.proof.model import CONDITIONS, Proof, ShardMap
from shardfix.proof.observed import Ending
from shardfix.report.explain import explain_page
from shardfix.report.watched import watched_json, watched_page, worst

SCHEMA = json.loads((Path(shardfix.report.__file__).parent / "schema.json").read_text("utf-8"))
FOUR = (0, 1, 2, 3)
HELD = dict.fromkeys(CONDITIONS, "held")
RIGHT = Proof(
    "train.py:41",
    "proven",
    ("2 ranks read every one of 4 samples once",),
    HELD,
    map_after=ShardMap(2, 4, (((0, 2),), ((1, 3),)), FOUR),
    told=("read by ranks 0 and 1 of 2, 3 passes",),
)
DOUBLE = Proof(
    "train.py:52",
    "refuted",
    ("sharded twice: 2 of 4 samples are never read",),
    HELD,
    map_after=ShardMap(2, 4, (((0,),), ((1,),)), FOUR),
    cause="sharded-twice",
    told=("read by ranks 0 and 1 of 2, 1 pass", "every pass was left after 1 step: what comes later was not consumed"),
)
UNREAD = Proof(
    "eval.py:9", "unproven", ("it was never read",), HELD, cause="never-read", told=("made by ranks 0 and 1 of 2",)
)
HANG = RunVerdict(
    "refuted",
    "uneven",
    ("hangs at train.py:52: rank 1 has 2 steps, rank 0 makes 3", "rank 0 waits (at train.py:52, pass 0, step 3)"),
    rank=0,
    loader="train.py:52",
    step=3,
    text='  File "train.py", line 60\n    dist.all_reduce(loss)',
    world=2,
    seconds=3.25,
    endings=(Ending(0, "hang", loader="train.py:52", step=3), Ending(1, "returned")),
)
WELL = RunVerdict("proven", reasons=("every rank came to its end",), world=2, seconds=0.5)


def test_the_page_says_who_reads_what_is_wrong_why_and_what_to_do() -> None:
    assert watched_page([RIGHT, DOUBLE, UNREAD], HANG).plain() == (
        "train.py:41  read by ranks 0 and 1 of 2, 3 passes\n"
        "    proof: proven\n"
        "        2 ranks read every one of 4 samples once\n"
        "train.py:52  read by ranks 0 and 1 of 2, 1 pass\n"
        "    proof: refuted: sharded-twice\n"
        "        sharded twice: 2 of 4 samples are never read\n"
        "        what to do: remove the DistributedSampler, or whatever else splits by rank, from the loader that is "
        "prepared\n"
        "        every pass was left after 1 step: what comes later was not consumed\n"
        "        2 ranks, 4 samples, one epoch\n"
        "        rank 0 | 0 . . .\n"
        "        rank 1 | . 1 . .\n"
        "        never read: 2 3\n"
        "eval.py:9  made by ranks 0 and 1 of 2\n"
        "    proof: unproven: never-read\n"
        "        it was never read\n"
        "        what to do: let the run come as far as that loader, or name its factory: "
        "shardfix verify --loader pkg.mod:fn\n"
        "\n"
        "the run  2 ranks, 3.2 s\n"
        "    ending: failed: uneven\n"
        "        hangs at train.py:52: rank 1 has 2 steps, rank 0 makes 3\n"
        "        rank 0 waits (at train.py:52, pass 0, step 3)\n"
        "        what to do: pad or drop to the same number on every rank (DistributedSampler does), or use Join\n"
        "        rank 0's own words:\n"
        '            File "train.py", line 60\n'
        "              dist.all_reduce(loss)\n"
        "\n"
        "3 loaders: 1 proven, 1 refuted, 1 unproven; the run failed: uneven\n"
    )


def test_a_run_that_ended_well_and_a_factory_are_short() -> None:
    assert watched_page([RIGHT], WELL).plain().splitlines()[3:] == [
        "",
        "the run  2 ranks, 0.5 s",
        "    ending: ended well",
        "        every rank came to its end",
        "",
        "1 loader: 1 proven",
    ]
    assert watched_page([RIGHT]).plain().splitlines()[3:] == ["", "1 loader: 1 proven"]
    assert watched_page([]).plain() == "no loader was seen\n"


def test_maps_are_drawn_of_what_is_refuted_or_of_all_or_of_nothing() -> None:
    def drawn(maps: str) -> int:
        return watched_page([RIGHT, DOUBLE], maps=maps).plain().count("rank 1 |")

    assert (drawn("first"), drawn("all"), drawn("none")) == (1, 2, 0)


def test_a_long_traceback_is_cut_at_its_head_and_control_characters_do_nothing() -> None:
    raised = replace(HANG, text="\n".join(f"frame {number}\x1b[2J" for number in range(30)))
    lines = watched_page([], raised).plain().splitlines()
    assert "          .. 10 lines more" in lines
    assert "          frame 29\\x1b[2J" in lines
    assert not any("frame 9\\" in line for line in lines)


def test_the_json_says_everything_and_keeps_to_the_schema() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    validator = Draft202012Validator({**SCHEMA, "anyOf": [{"$ref": "#/$defs/watched"}]})
    for results, run in (([RIGHT, DOUBLE, UNREAD], HANG), ([RIGHT], WELL), ([], None)):
        validator.validate(json.loads(json.dumps(watched_json(results, run))))
    data = watched_json([RIGHT, DOUBLE, UNREAD], HANG)
    assert (data["verdict"], data["counts"]) == ("refuted", {"proven": 1, "refuted": 1, "unproven": 1})
    assert list(data["causes"]) == ["sharded-twice", "never-read", "uneven"]
    assert [loader["cause"] for loader in data["loaders"]] == ["", "sharded-twice", "never-read"]
    assert data["run"]["endings"][0]["end"] == "hang"
    data["surprise"] = 1
    assert not validator.is_valid(json.loads(json.dumps(data)))


def test_the_worst_verdict_is_that_of_all() -> None:
    assert worst([RIGHT], WELL) == "proven"
    assert worst([RIGHT], HANG) == "refuted"
    assert worst([RIGHT, UNREAD], WELL) == "unproven"
    assert worst([]) == "unproven"


def test_a_map_that_nobody_reads_by_number_is_cut() -> None:
    size = 100_000
    ranks = tuple((tuple(range(rank, size, 4)), (rank,)) for rank in range(4))
    large = replace(RIGHT, map_after=ShardMap(4, size, ranks, tuple(range(size))))
    shards = watched_json([large])["loaders"][0]["map_after"]
    assert shards["cut"] is True
    assert [[len(batch) for batch in rank] for rank in shards["ranks"]] == [[5000]] * 4
    assert "cut" not in watched_json([RIGHT])["loaders"][0]["map_after"]


def test_a_cause_is_explained_by_its_code_and_all_of_them_by_a_word() -> None:
    page = explain_page("sharded-twice", width=80)
    assert page is not None
    assert page.plain() == (
        "sharded-twice  The loader is sharded by rank twice: each rank reads a share of its share, and the rest is "
        "never read.\n"
        "    what to do: remove the DistributedSampler, or whatever else splits by rank,\n"
        "    from the loader that is prepared\n"
    )
    everything = explain_page("causes")
    assert everything is not None
    assert all(f"{code}  " in everything.plain() for code in CAUSES)
