"""What a proof rests on counts only where it may decide a value that is compared, by whatever name it gets there."""

from __future__ import annotations

import ast

import pytest

from shardfix.proof.metrics.reaching import reaching

REACHES = {
    "by a name": "a = loss\nVALUES['x'] = a",
    "by a sum": "s = 0\ns += loss\nVALUES['x'] = s",
    "by a list": "rows = []\nrows.append(loss)\nVALUES['x'] = rows",
    "by an item": "d = {}\nd[0] = loss\nVALUES['x'] = d",
    "by a place": "d = {}\nd[loss] = 1\nVALUES['x'] = d",
    "by an attribute": "m.sum = loss\nVALUES['x'] = m",
    "by another name of a list": "rows = []\nsame = rows\nsame.append(loss)\nVALUES['x'] = rows",
    "by an item of a list": "rows = [[], []]\nfor row in rows:\n    row.append(loss)\nVALUES['x'] = rows",
    "by a list that is in another": "rows = []\nboth = [rows]\nrows += [loss]\nVALUES['x'] = both",
    "by a function that changes a list": "rows = []\nn = F_add(rows, loss)\nVALUES['x'] = rows",
    "by a method that changes a tensor": "t = v\nu = t.add_(loss)\nVALUES['x'] = v",
    "by what a method takes out": "row = rows.pop()\nrow.append(loss)\nVALUES['x'] = rows",
    "by what was added to a list": "rows = []\nrows.append(row)\nrows[0].append(loss)\nVALUES['x'] = row",
    "by a view": "t = torch.zeros(3)\nu = t.reshape(3)\nu[0] = loss\nVALUES['x'] = t",
    "by what was reduced alone": "a = reduced(b)\na += loss\nVALUES['x'] = b",
    "by a method's argument": "seen.update(rows, loss)\nVALUES['x'] = rows",
    "by a condition": "if loss > 3:\n    VALUES['x'] = 1",
    "by the number of turns": "for i in range(loss):\n    n += 1\nVALUES['x'] = 1",
    "by a call alone": "F_show(loss)\nVALUES['x'] = 1",
    "by one of two that are reduced": "a = loss\na, b = reduced(a, b)\nVALUES['x'] = a",
    "by one of two of a model": "loss_, logits = CALLED(MODEL(loss), ('loss', 'logits'))\nVALUES['x'] = logits",
}
LEFT = {
    "a sum that is not shown": "s = 0\ns += loss.mean().item()\ns = s / n\nt = torch.tensor(s)\nVALUES['x'] = n",
    "the other of two that are reduced": "a += loss\na, b = reduced(a, b)\nVALUES['x'] = b",
    "the other of two of a model": "a, logits = CALLED(MODEL(x), (loss, 'logits'))\ns += a\nVALUES['x'] = logits",
    "another list": "rows = []\nothers = []\nothers.append(loss)\nVALUES['x'] = rows",
}


def reaches(text: str) -> bool:
    tree = ast.parse(text)
    return any(isinstance(n, ast.Name) and n.id == "loss" for n in reaching(tree.body))


@pytest.mark.parametrize("name", REACHES)
def test_what_may_decide_a_value_is_found(name: str) -> None:
    assert reaches(REACHES[name])


@pytest.mark.parametrize("name", LEFT)
def test_what_decides_no_value_is_left_out(name: str) -> None:
    assert not reaches(LEFT[name])
