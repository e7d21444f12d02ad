"""How samples become a batch is taken for granted only where what puts them together is not seen to go one by one."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from shardfix.analysis.code.module import parse
from shardfix.analysis.code.project import link
from shardfix.analysis.metrics.collation import collated
from shardfix.analysis.model import Options
from shardfix.config import Config
from shardfix.engine import migrate
from shardfix.proof.metrics.widths import fixed_widths

HEAD = """\
import random
import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import (
    AutoModelForSequenceClassification, AutoModelForTokenClassification, DataCollatorForLanguageModeling,
    DataCollatorForSeq2Seq, DataCollatorForTokenClassification, DataCollatorWithPadding, DefaultDataCollator,
    default_data_collator,
)
def pads(batch):
    x = pad_sequence([b["x"] for b in batch], batch_first=True, padding_value=0)
    return {"x": x, "y": torch.tensor([b["y"] for b in batch])}
def turned(batch):
    return pad_sequence([b["x"] for b in batch])
def draws(batch):
    return pad_sequence([b["x"] * random.random() for b in batch], batch_first=True)
def turns_round(batch):
    return pad_sequence([b["x"] for b in batch[::-1]], batch_first=True)
"""


@pytest.mark.parametrize(
    ("made", "how"),
    [
        pytest.param("c = default_data_collator\n", "stacked", id="the default"),
        pytest.param("c = DefaultDataCollator()\n", "stacked", id="the default as an object"),
        pytest.param("c = DataCollatorWithPadding(tok)\n", "padded", id="with padding"),
        pytest.param("c = DataCollatorForTokenClassification(tok, pad_to_multiple_of=8)\n", "padded", id="of tokens"),
        pytest.param("c = DataCollatorForSeq2Seq(tok, **more)\n", "padded", id="of sequences"),
        pytest.param(
            "if fixed:\n    c = default_data_collator\nelse:\n    c = DataCollatorWithPadding(tok)\n",
            "padded",
            id="one of two",
        ),
        pytest.param("c = pads\n", "padded", id="a function of the project that pads"),
        pytest.param("c = DataCollatorForLanguageModeling(tok)\n", "unknown", id="masks at random"),
        pytest.param(
            "if mlm:\n    c = DataCollatorForLanguageModeling(tok)\nelse:\n    c = DataCollatorWithPadding(tok)\n",
            "unknown",
            id="masks at random on some ways",
        ),
        pytest.param("c = turned\n", "unknown", id="pads along the first dimension"),
        pytest.param("c = draws\n", "unknown", id="draws a number"),
        pytest.param("c = turns_round\n", "unknown", id="turns the samples round"),
        pytest.param("c = DataCollatorOfMine(tok)\n", "unknown", id="a class that is not seen"),
    ],
)
def test_a_collator_that_goes_sample_by_sample_is_seen_to(made: str, how: str) -> None:
    module = parse("train.py", f"{HEAD}{made}used(c)\n")
    link({"train.py": module})
    (call,) = [n for n in ast.walk(module.tree) if isinstance(n, ast.Call) and ast.unparse(n.func) == "used"]
    assert collated(module, call.args[0]) == how


CLASSES = "model = AutoModelForSequenceClassification.from_pretrained(name)\n"
TOKENS = CLASSES.replace("Sequence", "Token")
FILLED = "    out = accelerator.pad_across_processes(out)\n    n"
LOOP = "for batch in loader:\n    out = model(**batch)\n    n += out.logits.argmax(-1)\n"


@pytest.mark.parametrize(
    ("text", "fixed"),
    [
        pytest.param(CLASSES + LOOP, True, id="scores of classes"),
        pytest.param(CLASSES + "model, opt = accelerator.prepare(model, opt)\n" + LOOP, True, id="prepared"),
        pytest.param(CLASSES + "model = model.to(0)\n" + LOOP, True, id="moved"),
        pytest.param(
            "def load():\n    m = AutoModelForSequenceClassification.from_pretrained(name)\n    return tok, m\n"
            "tok, model = load()\n" + LOOP,
            True,
            id="loaded by a function",
        ),
        pytest.param(
            CLASSES + "def run(model):\n    " + LOOP.replace("\n    ", "\n        ") + "run(model)\n",
            True,
            id="handed to a function",
        ),
        pytest.param(
            TOKENS + LOOP.replace("    n", FILLED),
            True,
            id="filled up",
        ),
        pytest.param(TOKENS + LOOP, False, id="scores of tokens"),
        pytest.param("if t:\n    " + TOKENS + "else:\n    " + CLASSES + LOOP, False, id="of tokens on some ways"),
        pytest.param(LOOP, False, id="a model that is not seen"),
        pytest.param(CLASSES + LOOP + "    model2 = 1\n    x = net(batch)\n", False, id="another model beside it"),
    ],
)
def test_rows_of_one_width_are_seen_by_the_model_s_class(text: str, fixed: bool) -> None:
    module = parse("train.py", HEAD + text)
    link({"train.py": module})
    (loop,) = [n for n in ast.walk(module.tree) if isinstance(n, ast.For)]
    assert fixed_widths(module, loop) == fixed


PROGRAM = """\
import evaluate
from accelerate import Accelerator
from torch.utils.data import DataLoader
from transformers import AutoModelForSequenceClassification, AutoModelForTokenClassification, AutoTokenizer
from transformers import DataCollatorForLanguageModeling, DataCollatorWithPadding

accelerator = Accelerator()
val_set = [{{"labels": i % 2}} for i in range(25)]
collator = {collator}(AutoTokenizer.from_pretrained("t"))
model = {model}.from_pretrained("m")
model, val_loader = accelerator.prepare(model, DataLoader(val_set, batch_size=4, collate_fn=collator))
metric = evaluate.load("accuracy")
model.eval()
for batch in val_loader:
    pred = model(**batch).logits.argmax(dim=-1)
    pred, labels = accelerator.gather((pred, batch["labels"]))
    metric.add_batch(predictions=pred, references=labels)
accelerator.print(metric.compute())
"""


@pytest.mark.parametrize(
    ("collator", "model", "verdict", "reason"),
    [
        pytest.param(
            "DataCollatorWithPadding",
            "AutoModelForSequenceClassification",
            "proven",
            "2 and 3 ranks get the metric of one process",
            id="one row a sample",
        ),
        pytest.param(
            "DataCollatorWithPadding",
            "AutoModelForTokenClassification",
            "unproven",
            "it holds only if what is put together is as wide on all ranks, though `collator` fills up each batch"
            " by itself",
            id="rows as wide as the batch",
        ),
        pytest.param(
            "DataCollatorForLanguageModeling",
            "AutoModelForSequenceClassification",
            "unproven",
            "it holds only if `collator` puts samples together one by one",
            id="masked at random",
        ),
    ],
)
def test_a_padded_batch_is_granted_only_where_its_width_may_count(
    tmp_path: Path, collator: str, model: str, verdict: str, reason: str
) -> None:
    (tmp_path / "train.py").write_text(PROGRAM.format(collator=collator, model=model))
    config = Config(tmp_path, Options(sanitizer="off"))
    (proof,) = migrate([], config=config, write=False, verify="yes", timeout=100).proofs
    assert (proof.verdict, proof.reasons[0]) == (verdict, reason)
