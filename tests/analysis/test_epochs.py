"""The epoch loop of a loader is decided by what is counted around its batch loop, never by a name alone."""

from __future__ import annotations

import pytest
from loaders import site

HEAD = "from torch.utils.data import DataLoader\n"
BATCHES = "    for b in loader:\n        pass\n"
LOADER = "loader = DataLoader(d, sampler=s)\n"


def counters(text: str) -> list[str]:
    return [loop.counter for loop in site(HEAD + text).epoch_loops.loops]


def why(text: str) -> str:
    found = site(HEAD + text).epoch_loops
    assert not found.loops
    return "rebuilt" if found.rebuilt else found.why


@pytest.mark.parametrize(
    ("text", "counter"),
    [
        pytest.param("for epoch in range(3):\n" + BATCHES, "epoch", id="range"),
        pytest.param("for i in range(3):\n" + BATCHES, "i", id="any name"),
        pytest.param("for _ in range(3):\n" + BATCHES, "", id="no name"),
        pytest.param("for e in trange(3, desc='Epoch'):\n" + BATCHES, "e", id="trange"),
        pytest.param("for epoch in tqdm(range(3)):\n" + BATCHES, "epoch", id="a bar over range"),
        pytest.param(
            "train_iterator = trange(3)\nfor _ in train_iterator:\n" + BATCHES, "", id="a bar with a misleading name"
        ),
        pytest.param("for i, e in enumerate(trange(3)):\n" + BATCHES, "e", id="enumerate over trange"),
        pytest.param("for epoch in itertools.count():\n" + BATCHES, "epoch", id="count"),
        pytest.param(
            "epoch = 0\nwhile epoch < 3:\n" + BATCHES + "    epoch += 1\n", "epoch", id="while with a counter"
        ),
        pytest.param(
            "epoch = 0\nwhile epoch < 3 and going:\n    epoch = epoch + 1\n" + BATCHES,
            "epoch",
            id="while, counted first",
        ),
        pytest.param(
            "n = 0\nwhile n != 3:\n" + BATCHES + "    n += 1\n", "n", id="while, whatever the counter is called"
        ),
        pytest.param(
            "epoch = 0\nwhile True:\n" + BATCHES + "    epoch += 1\n    if epoch > 2:\n        break\n",
            "epoch",
            id="while True that counts epochs",
        ),
        pytest.param("for __ in range(3):\n" + BATCHES, "", id="no name, twice"),
        pytest.param(
            "with trange(3) as bar:\n    for e in bar:\n        for b in loader:\n            pass\n",
            "e",
            id="a bar as context",
        ),
        pytest.param("for self.epoch in range(3):\n" + BATCHES, "self.epoch", id="an attribute as target"),
        pytest.param(
            "for epoch in range(3):\n    for i, b in enumerate(tqdm(loader)):\n        pass\n",
            "epoch",
            id="batches enumerated",
        ),
        pytest.param(
            "def run(l):\n    for b in l:\n        pass\nfor epoch in range(3):\n    run(loader)\n",
            "epoch",
            id="around the call of a function",
        ),
        pytest.param(
            "def run(l):\n    for b in l:\n        pass\n"
            "def main(l):\n    for epoch in range(3):\n        run(l)\nmain(loader)\n",
            "epoch",
            id="two calls away",
        ),
        pytest.param(
            "for fold in range(5):\n    for epoch in range(3):\n        for b in loader:\n            pass\n",
            "epoch",
            id="of two counting loops the one that is named so",
        ),
    ],
)
def test_the_loop_that_counts_epochs(text: str, counter: str) -> None:
    assert counters(LOADER + text) == [counter]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param(LOADER + "for b in loader:\n    pass\n", "no-epoch-loop", id="one pass"),
        pytest.param(
            LOADER + "epoch_iterator = tqdm(loader)\nfor step, b in enumerate(epoch_iterator):\n    pass\n",
            "no-epoch-loop",
            id="a batch loop that is called an epoch's",
        ),
        pytest.param(LOADER + "for epoch in epochs:\n" + BATCHES, "no-epoch-loop", id="not seen to count"),
        pytest.param(LOADER + "while True:\n" + BATCHES, "no-epoch-loop", id="while without a counter"),
        pytest.param(
            LOADER + "epoch = 0\nwhile epoch < 3:\n    if bad():\n        continue\n" + BATCHES + "    epoch += 1\n",
            "no-epoch-loop",
            id="a pass that may not be counted",
        ),
        pytest.param(
            LOADER + "epoch = 0\nwhile epoch < 3:\n" + BATCHES + "    if good():\n        epoch += 1\n",
            "no-epoch-loop",
            id="counted now and then",
        ),
        pytest.param(
            LOADER + "epoch = 0\nwhile epoch < 3:\n" + BATCHES + "    epoch += 1\n    if bad():\n        epoch = 0\n",
            "no-epoch-loop",
            id="a count that starts again",
        ),
        pytest.param(
            LOADER + "step = 0\nwhile step < 9:\n    for b in loader:\n        step += 1\n",
            "no-epoch-loop",
            id="steps are counted",
        ),
        pytest.param(LOADER + "it = iter(loader)\nfor step in range(9):\n    b = next(it)\n", "next-driven", id="next"),
        pytest.param(LOADER, "no-iteration", id="never iterated"),
        pytest.param(
            LOADER + "for i in range(3):\n    for j in range(2):\n        for b in loader:\n            pass\n",
            "ambiguous",
            id="two loops that count",
        ),
        pytest.param(
            "for epoch in range(3):\n    loader = DataLoader(d, sampler=s)\n" + BATCHES,
            "rebuilt",
            id="built in the loop",
        ),
        pytest.param(
            "def make():\n    return DataLoader(d, sampler=s)\nfor epoch in range(3):\n    loader = make()\n" + BATCHES,
            "rebuilt",
            id="a factory called in the loop",
        ),
    ],
)
def test_why_no_epoch_loop_is_known(text: str, reason: str) -> None:
    assert why(text) == reason


def told(text: str) -> int:
    """How many ``set_epoch`` calls reach the loader's sampler."""
    return len(
        site(
            HEAD + "from torch.utils.data.distributed import DistributedSampler\n"
            "s = DistributedSampler(d)\nloader = DataLoader(d, sampler=s)\n" + text
        ).told
    )


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        pytest.param("s.set_epoch(e)\n", 1, id="the sampler's variable"),
        pytest.param("loader.sampler.set_epoch(e)\n", 1, id="the loader's sampler"),
        pytest.param("loader.batch_sampler.sampler.set_epoch(e)\n", 1, id="the batch sampler's sampler"),
        pytest.param("loader.set_epoch(e)\n", 1, id="the loader"),
        pytest.param('getattr(loader.sampler, "set_epoch", lambda e: None)(e)\n', 1, id="getattr with a default"),
        pytest.param(
            'if hasattr(loader.sampler, "set_epoch"):\n    loader.sampler.set_epoch(e)\n', 1, id="under hasattr"
        ),
        pytest.param("s.set_epoch(e) if dist else None\n", 1, id="in a conditional expression"),
        pytest.param("t = loader.sampler\nt.set_epoch(e)\n", 1, id="the loader's sampler under another name"),
        pytest.param("def f(l):\n    l.sampler.set_epoch(e)\nf(loader)\n", 1, id="in another function"),
        pytest.param("other.set_epoch(e)\n", 0, id="something else"),
        pytest.param("d.set_epoch(e)\n", 0, id="the dataset"),
    ],
)
def test_calls_that_tell_the_epoch(text: str, calls: int) -> None:
    assert told(text) == calls
