"""Texts that a library's tokenizer reads out of ids are run in a metric's proof; those of any other object are not."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from shardfix.analysis.code.module import parse
from shardfix.analysis.code.project import link
from shardfix.analysis.model import Options
from shardfix.config import Config
from shardfix.engine import migrate
from shardfix.proof.metrics.texts import text_of_ids

FACTORY = "from transformers import BertTokenizer\ndef make(path):\n    return BertTokenizer.from_pretrained(path)\n"
OWN = "class Tokenizer:\n    def decode(self, ids):\n        self.seen = ids\n        return self.seen\n"
TABLE = (
    "from transformers import BertConfig, BertTokenizer, RobertaConfig, RobertaTokenizer\n"
    "CLASSES = {'bert': (BertConfig, BertTokenizer), 'roberta': (RobertaConfig, RobertaTokenizer)}\n"
)


def stands_for(text: str) -> str:
    """What stands for the call that reads a text, beside a file with a function and one with a class; else empty."""
    texts = {"train.py": text, "factory.py": FACTORY, "own.py": OWN}
    module = link({path: parse(path, t) for path, t in texts.items()}).modules["train.py"]
    reads = ("decode", "batch_decode", "convert_ids_to_tokens", "pad")
    (call,) = [n for n in ast.walk(module.tree) if isinstance(n, ast.Call) and getattr(n.func, "attr", "") in reads]
    made = text_of_ids(module, call, lambda node: node)
    return ast.unparse(made) if made is not None else ""


AUTO = "from transformers import AutoTokenizer\ntok = AutoTokenizer.from_pretrained(name)\n"


@pytest.mark.parametrize(
    ("text", "made"),
    [
        pytest.param(AUTO + "t = tok.decode(ids, skip_special_tokens=True)\n", "TEXT(ids)", id="decode"),
        pytest.param(AUTO + "t = tok.batch_decode(sequences=out)\n", "TEXTS(out)", id="batch_decode by keyword"),
        pytest.param(AUTO + "t = tok.convert_ids_to_tokens(ids)\n", "TOKENS(ids)", id="tokens"),
        pytest.param(
            AUTO + "def run(t):\n    return t.decode(ids)\nrun(tok)\n", "TEXT(ids)", id="handed to a function"
        ),
        pytest.param(
            "import transformers\ntok = transformers.T5Tokenizer(vocab)\nt = tok.decode(ids)\n",
            "TEXT(ids)",
            id="made by its class",
        ),
        pytest.param(
            "from transformers import AutoProcessor\np = AutoProcessor.from_pretrained(n)\nt = p.tokenizer.decode(i)\n",
            "TEXT(i)",
            id="a processor's",
        ),
        pytest.param(
            f"{TABLE}config, cls = CLASSES[args.kind]\ntok = cls.from_pretrained(args.name)\nt = tok.decode(ids)\n",
            "TEXT(ids)",
            id="a table of classes",
        ),
        pytest.param(
            TABLE + "config, cls = BertConfig, BertTokenizer\ntok = cls.from_pretrained(n)\nt = tok.decode(ids)\n",
            "TEXT(ids)",
            id="a row of classes",
        ),
        pytest.param(
            "import factory\ndef load():\n    t = factory.make(n)\n    return config, t\nconfig, tok = load()\n"
            "t = tok.decode(ids)\n",
            "TEXT(ids)",
            id="one of what a function gives",
        ),
        pytest.param("import factory\ntok = factory.make(n)\nt = tok.decode(ids)\n", "TEXT(ids)", id="made elsewhere"),
        pytest.param(
            "from transformers import AutoTokenizer\nclass Model:\n    def __init__(self):\n"
            "        self.tok = AutoTokenizer.from_pretrained('t')\n    def run(self):\n"
            "        return self.tok.decode(ids)\n",
            "TEXT(ids)",
            id="kept by an object",
        ),
    ],
)
def test_a_library_s_tokenizer_gives_a_text_of_its_ids(text: str, made: str) -> None:
    assert stands_for(text) == made


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            "from own import Tokenizer\ntok = Tokenizer()\nt = tok.decode(ids)\n", id="a class of the project"
        ),
        pytest.param("t = tok.decode(ids)\n", id="a name that is not bound"),
        pytest.param("def run(tok):\n    return tok.decode(ids)\n", id="a parameter that nobody gives"),
        pytest.param(
            AUTO + "import own\ndef run(t):\n    return t.decode(ids)\nrun(tok)\nrun(own.Tokenizer())\n",
            id="a parameter that others give otherwise",
        ),
        pytest.param(AUTO + "if fast:\n    tok = Fast()\nt = tok.decode(ids)\n", id="another one on some ways"),
        pytest.param(
            "from transformers import AutoModel\nvae = AutoModel.from_pretrained(n)\nt = vae.decode(ids)\n",
            id="a model that decodes",
        ),
        pytest.param(AUTO + "t = tok.pad(ids)\n", id="another method"),
        pytest.param(
            AUTO.replace("(name)", "(name, trust_remote_code=True)") + "t = tok.decode(ids)\n", id="code from elsewhere"
        ),
        pytest.param(
            f"{TABLE.replace(', BertTokenizer)', ', Own)')}_, cls = CLASSES[k]\ntok = cls.from_pretrained(n)\n"
            "t = tok.decode(ids)\n",
            id="a table with another class",
        ),
    ],
)
def test_an_object_that_may_be_another_one_is_not_taken_for_a_tokenizer(text: str) -> None:
    assert stands_for(text) == ""


PROGRAM = """\
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader
from transformers import AutoTokenizer


class Decoder:
    def __init__(self):
        self.last = None

    def decode(self, ids):
        before, self.last = self.last, str(ids)
        return before


dist.init_process_group("gloo")
val_set = [(torch.tensor([float(i)]), i % 2) for i in range(25)]
val_loader = DataLoader(val_set, batch_size=4)
model = torch.nn.Linear(1, 2).eval()
tokenizer = AutoTokenizer.from_pretrained("t5-small")
texts = []
with torch.no_grad():
    for x, label in val_loader:
        for row in model(x):
            texts.append(tokenizer.decode(row.tolist()).strip())
print(len(set(texts)) / len(texts))
"""
STATEFUL = PROGRAM.replace('AutoTokenizer.from_pretrained("t5-small")', "Decoder()")


def proof(folder: Path, text: str) -> tuple[str, str, dict[str, str]]:
    (folder / "train.py").write_text(text)
    config = Config(folder, Options(sanitizer="off", unsafe=True))
    (found,) = migrate([], config=config, write=False, verify="yes", timeout=100).proofs
    return found.verdict, found.reasons[0], {s.expression: s.value for s in found.stand_ins}


def test_a_metric_of_texts_is_proven_and_what_stands_for_them_is_told(tmp_path: Path) -> None:
    verdict, reason, stand_ins = proof(tmp_path, PROGRAM)
    assert (verdict, reason.partition(":")[0]) == (
        "proven",
        "2 and 3 ranks evaluate every sample once and get the metric of one process",
    )
    assert stand_ins["tokenizer.decode(row.tolist())"] == "a text of the ids that it is given, by nothing else"


def test_a_metric_of_texts_of_a_decoder_with_a_memory_is_not_proven(tmp_path: Path) -> None:
    verdict, reason, _ = proof(tmp_path, STATEFUL)
    assert verdict == "unproven"
    assert reason.startswith("its metric is not proven: the metric is not reduced across ranks")
