"""Whether a file that is read may be the one that is written, by how the paths end."""

from __future__ import annotations

import ast

import pytest
from loaders import module

from shardfix.analysis.loops.files import may_meet

HEAD = (
    "import json\nimport os\nimport torch\nfrom transformers import AutoModel\nfrom transformers.x import make_report\n"
)


def meets(read: str, write: str) -> bool:
    """Whether the call of one statement may read what the other writes."""
    found = module(f"{HEAD}{write}\n{read}\n")
    statement, reader = found.tree.body[-2:]
    call = reader.value if isinstance(reader, ast.Expr) else None
    assert isinstance(call, ast.Call)
    return may_meet(found, call, found, statement)


@pytest.mark.parametrize(
    ("read", "write", "expected"),
    [
        pytest.param("torch.load('a.pt')", "torch.save(x, 'a.pt')", True, id="one name"),
        pytest.param("torch.load('a.pt')", "torch.save(x, 'b.pt')", False, id="two names"),
        pytest.param("torch.load(os.path.join(d, 'a.pt'))", "torch.save(x, 'out/a.pt')", True, id="in a folder"),
        pytest.param("torch.load(path)", "torch.save(x, 'b.pt')", True, id="any name"),
        pytest.param("torch.load('best.pt')", "torch.save(x, f'{name}.pt')", True, id="a name that ends alike"),
        pytest.param("torch.load('best.pt')", "torch.save(x, f'{name}.json')", False, id="a name that ends otherwise"),
        pytest.param("torch.load('c_{}'.format(a))", "torch.save(x, 'results.txt')", False, id="another beginning"),
        pytest.param("torch.load('c_{}'.format(a))", "torch.save(x, 'c_1')", True, id="the same beginning"),
        pytest.param("torch.load(d + '/a.pt')", "torch.save(x, d + '/b.pt')", False, id="added to a folder"),
        pytest.param("torch.load(d + 'a.pt')", "torch.save(x, 'bea.pt')", True, id="added to a name"),
        pytest.param("AutoModel.from_pretrained(d)", "model.save_pretrained(d)", True, id="a saved model"),
        pytest.param(
            "AutoModel.from_pretrained(d)", "torch.save(x, 'pytorch_model.bin')", True, id="a model's weights"
        ),
        pytest.param("AutoModel.from_pretrained(d)", "torch.save(x, d + '/eval.txt')", False, id="no file of a model"),
        pytest.param("AutoModel.from_pretrained(d)", "make_report(output_file)", True, id="written by a library"),
        pytest.param("torch.load('a.pt')", "os.makedirs('a.pt')", False, id="a folder"),
        pytest.param(
            "torch.load('a.pt')", "with open('b.txt', 'w') as f:\n    f.write('1')", False, id="what is opened, by that"
        ),
        pytest.param("model.load_state_dict(state)", "torch.save(x, 'a.pt')", False, id="a state, which another reads"),
    ],
)
def test_a_file_may_be_the_one_that_is_written(read: str, write: str, expected: bool) -> None:
    assert meets(read, write) is expected
