"""The picture of a shard map is well-formed, complete, escaped and alone."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

from shardfix.proof.model import Proof, ShardMap
from shardfix.proof.sheet import pictures_of, sheet_svg
from shardfix.proof.svg import Picture

SVG = "{http://www.w3.org/2000/svg}"
EIGHT = tuple(range(8))
UNSHARDED = ShardMap(2, 8, ((EIGHT,), (EIGHT,)), EIGHT)
RIGHT = ShardMap(2, 8, (((0, 2, 4, 6),), ((1, 3, 5, 7),)), EIGHT)


def shard_map_svg(before: ShardMap | None, after: ShardMap | None, title: str) -> str:
    return sheet_svg([Picture(title, before, after)])


def words(picture: str) -> list[str]:
    return ["".join(element.itertext()) for element in ET.fromstring(picture).iter(f"{SVG}text")]


def cells(picture: str, kind: str | None) -> int:
    return sum(element.get("class") == kind for element in ET.fromstring(picture).iter(f"{SVG}rect"))


def test_both_maps_are_there_with_a_title_a_description_and_a_legend() -> None:
    picture = shard_map_svg(UNSHARDED, RIGHT, "train.py:7")
    root = ET.fromstring(picture)
    assert root.get("role") == "img"
    title, says = root.find(f"{SVG}title"), root.find(f"{SVG}desc")
    assert title is not None
    assert says is not None
    assert root.get("aria-labelledby") == f"{title.get('id')} {says.get('id')}"
    assert title.text == "train.py:7"
    assert says.text == (
        "before: 2 ranks, 8 samples, one epoch: every rank reads all 8 samples; "
        "after: 2 ranks, 8 samples, one epoch: every sample is read once: no overlap, nothing missed"
    )
    assert [word for word in words(picture) if not word.isdigit()] == [
        "train.py:7",
        *("before2 ranks, 8 samples, one epoch", "rank 0", "rank 1", "together", "every rank reads all 8 samples"),
        *("after2 ranks, 8 samples, one epoch", "rank 0", "rank 1", "together"),
        "every sample is read once: no overlap, nothing missed",
        *("rank 0", "rank 1", "read once", "read more than once"),
    ]


def test_every_visit_is_a_cell_and_what_is_wrong_is_marked() -> None:
    assert cells(shard_map_svg(None, RIGHT, ""), None) == 8 + 2  # with the two of the legend
    assert cells(shard_map_svg(None, RIGHT, ""), "ring") == 0
    unsharded = shard_map_svg(None, UNSHARDED, "")
    assert (cells(unsharded, None), cells(unsharded, "ring"), cells(unsharded, "extra")) == (18, 16, 9)
    holes = shard_map_svg(None, ShardMap(2, 8, (((0, 4),), ((1, 5),)), EIGHT), "")
    assert cells(holes, "never") == 4 + 1
    dropped = shard_map_svg(None, ShardMap(2, 8, (((0, 4),), ((1, 5),)), EIGHT, dropped=4), "")
    assert cells(dropped, "never") == 0
    assert "left out by drop_last" in words(dropped)
    padded = shard_map_svg(None, ShardMap(2, 3, (((0, 2),), ((1, 0),)), (0, 1, 2), padding=1), "")
    assert (cells(padded, "padding"), cells(padded, "extra")) == (2, 0)


def test_what_the_user_wrote_is_text() -> None:
    picture = shard_map_svg(None, RIGHT, 'a<script>alert("x")</script>&\x1b[31m\udcff')
    assert words(picture)[0] == 'a<script>alert("x")</script>&\\u001b[31m\\udcff'
    picture.encode("utf-8")


def test_it_needs_nothing_from_elsewhere_and_leaves_a_page_around_it_alone() -> None:
    picture = shard_map_svg(UNSHARDED, RIGHT, "train.py:7")
    assert re.findall(r"https?://[^\"' ]+", picture) == ["http://www.w3.org/2000/svg"]
    assert "script" not in picture
    mark = ET.fromstring(picture).get("id")
    style = re.search(r"<style>(.*?)</style>", picture, re.DOTALL)
    assert style is not None
    rules = [line for line in style[1].strip().splitlines() if not line.startswith(("@", "}"))]
    assert all(part.startswith(f"#{mark} ") for rule in rules for part in rule.partition("{")[0].split(", "))
    other = ET.fromstring(shard_map_svg(None, RIGHT, "eval.py:9")).get("id")
    assert mark != other


def test_sizes_from_nothing_to_very_large_stay_in_the_picture() -> None:
    assert shard_map_svg(None, None, "nothing") == ""
    for size in (0, 1, 41, 42, 84, 250, 251, 100_000):
        for world in (1, 2, 16):
            shards = ShardMap(
                world, size, tuple((tuple(range(r, size, world)),) for r in range(world)), tuple(range(size))
            )
            root = ET.fromstring(shard_map_svg(None, shards, "after"))
            width, height = float(root.get("width", 0)), float(root.get("height", 0))
            for rect in root.iter(f"{SVG}rect"):
                x, y, w, h = (float(rect.get(name, 0)) for name in ("x", "y", "width", "height"))
                assert x + w <= width
                assert y + h <= height
            for text in root.iter(f"{SVG}text"):
                assert float(text.get("y", 0)) < height


def test_a_frozen_epoch_is_told() -> None:
    shards = ShardMap(2, 4, (((3, 1),), ((0, 2),)), (0, 1, 2, 3), orders=((3, 1), (3, 1)))
    assert "rank 0, epoch 1: 3 1 .. (again)" in words(shard_map_svg(None, shards, ""))


def test_a_large_set_says_what_part_is_read_twice_or_never() -> None:
    size = 4000
    quarter, half = tuple(range(0, size, 4)), tuple(range(size // 2))
    picture = shard_map_svg(None, ShardMap(2, size, ((quarter,), (half,)), tuple(range(size))), "")
    assert [word for word in words(picture) if word in ("together", "more than once", "never read")] == [
        "more than once",
        "never read",
    ]
    assert cells(picture, "ring") == 0
    bars = [element for element in ET.fromstring(picture).iter(f"{SVG}rect") if element.get("class") == "extra"]
    heights = [float(bar.get("height", 0)) for bar in bars]
    assert min(heights) >= 1.5
    assert max(heights) < 16  # three quarters of a stretch of the second half are never read
    assert 140 <= len(bars) <= 150  # a bar for each of the stretches: the first half is read twice, the second missed
    fine = shard_map_svg(None, ShardMap(1, size, ((tuple(range(size)),),), tuple(range(size))), "")
    assert "together" in words(fine)


def test_many_loaders_stand_below_one_another_each_with_its_verdict_and_why() -> None:
    proofs = [
        Proof("a.py:1", "refuted", ("every rank reads all 8 samples",), {}, cause="unsharded", map_after=UNSHARDED),
        Proof("b.py:2", "unproven", ("it was never read",), {}),
        Proof(
            "c.py:3", "proven", ("2 ranks read every one of 8 samples once",), {}, map_after=RIGHT, told=("read twice",)
        ),
    ]
    sheet = sheet_svg(pictures_of(proofs))
    root = ET.fromstring(sheet)
    papers = [element for element in root.iter(f"{SVG}rect") if element.get("class") == "paper"]
    tops = [float(paper.get("y", 0)) for paper in papers]
    ends = [top + float(paper.get("height", 0)) for top, paper in zip(tops, papers, strict=True)]
    assert 44 < ends[0] < tops[1] < ends[1] <= float(root.get("height", 0))
    said = [word for word in words(sheet) if not word.isdigit()]
    assert said[:4] == [
        "2 loaders: 1 proven, 1 refuted",
        "a.py:1",
        "refuted: unsharded",
        "every rank reads all 8 samples",
    ]
    second = said.index("c.py:3")
    assert said[second : second + 4] == ["c.py:3", "proven", "read twice", "2 ranks read every one of 8 samples once"]
    assert len(set(re.findall(r'id="([^"]+)"', sheet))) == len(re.findall(r'id="[^"]+"', sheet))
    assert sheet_svg(pictures_of(proofs[1:2])) == ""
