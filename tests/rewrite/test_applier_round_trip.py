"""Every edit of a kind at every place of a script: the syntax tree is the one expected and no comment is lost.

The script is tried as it is, with CRLF, and without a newline at the end.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Literal

import pytest

from shardfix.rewrite.applier import apply
from shardfix.rewrite.edits import (
    AddImport,
    DropImport,
    DropKeyword,
    DropStatement,
    Edit,
    InsertStatements,
    SetKeyword,
    Span,
    WrapExpression,
)
from shardfix.rewrite.gates import GateError, check
from shardfix.rewrite.layout import read_layout

SAMPLE = '''#!/usr/bin/env python
"""Fine-tune — größer."""
from __future__ import annotations

import os, sys
from torch.utils.data import (DataLoader, RandomSampler,
                              SequentialSampler)  # loaders
from torch.utils.data.distributed import DistributedSampler
from torch import nn, \\
    optim

if sys.argv: print("go"); os.getpid()


class Trainer(object):
    """It trains."""

    # the device
    device = dict(kind="cpu", index=0)  # noqa

    @staticmethod
    def loaders(args, data, held_out):
        if args.local_rank == -1:  # one process
            sampler = RandomSampler(data, replacement=False)
            # in order
            held = SequentialSampler(data_source=held_out)
        elif args.world > 1:
            sampler, held = DistributedSampler(data, shuffle=True), None
        else: raise ValueError("no"); return
        train = DataLoader(
            data,
            # as measured
            batch_size=args.batch,  # per process
            sampler=sampler,

            num_workers=max(1, 2, key=lambda n: -n),
        )
        return train, DataLoader(held_out, batch_size=args.batch * 2, sampler=held,
                                 drop_last=False,  # never
                                 pin_memory=True)


def main(args):
\tmodel = nn.Linear(in_features=1, out_features=1)

\toptimizer = optim.SGD(params=model.parameters(), lr=.1); steps = 0
\ttry:
\t\tfor epoch in range(3): print(epoch, flush=True)

\t\telse:
\t\t\tprint(f"{epoch}", "# no comment", end="")  # done
\tfinally:
\t\tprint(steps, optimizer)

\t\t# the end


if __name__ == "__main__":
    main(args=None)
'''
SPELLINGS: dict[str, Callable[[str], str]] = {
    "as it is": lambda text: text,
    "CRLF": lambda text: text.replace("\n", "\r\n"),
    "no newline at the end": lambda text: text.rstrip("\n"),
}


def checked(text: str, *edits: Edit) -> str:
    """The edited text, through all gates but that for names: what a dropped statement binds is used elsewhere."""
    result = apply(text, edits, path="a.py")
    try:
        check(text, result, path="a.py")
    except GateError as error:
        if error.gate != "names":
            raise
    return result.text


def spans(text: str) -> Callable[[ast.expr | ast.stmt], Span]:
    layout = read_layout("a.py", text)

    def span(node: ast.expr | ast.stmt) -> Span:
        end = layout.offset(node.end_lineno or 0, node.end_col_offset or 0)
        return Span(layout.offset(node.lineno, node.col_offset), end)

    return span


@pytest.fixture(params=SPELLINGS)
def text(request: pytest.FixtureRequest) -> str:
    return SPELLINGS[request.param](SAMPLE)


def test_each_keyword_dropped_and_each_set(text: str) -> None:
    span, tree = spans(text), ast.parse(text)
    for call in [node for node in ast.walk(tree) if isinstance(node, ast.Call)]:
        for keyword in list(call.keywords):
            place, value, name = call.keywords.index(keyword), keyword.value, keyword.arg or ""
            dropped = checked(text, DropKeyword("a.py", span(call), name))
            call.keywords.remove(keyword)
            assert ast.dump(ast.parse(dropped)) == ast.dump(tree)
            call.keywords.insert(place, keyword)
            changed = checked(text, SetKeyword("a.py", span(call), name, "None"))
            keyword.value = ast.Constant(None)
            assert ast.dump(ast.parse(changed)) == ast.dump(tree)
            keyword.value = value


def test_each_call_wrapped_and_given_another_keyword(text: str) -> None:
    span, tree = spans(text), ast.parse(text)
    for call in [node for node in ast.walk(tree) if isinstance(node, ast.Call)]:
        edits: list[Edit] = [
            SetKeyword("a.py", span(call), "new", "None"),
            WrapExpression("a.py", span(call), "(", ")"),
        ]
        call.keywords.append(ast.keyword("new", ast.Constant(None)))
        assert ast.dump(ast.parse(checked(text, *edits))) == ast.dump(tree)
        call.keywords.pop()


def test_each_statement_dropped(text: str) -> None:
    span, tree = spans(text), ast.parse(text)
    for block in blocks(tree):
        for index, statement in enumerate(list(block)):
            dropped = checked(text, DropStatement("a.py", span(statement)))
            was = list(block)
            block[index : index + 1] = [ast.Pass()] if len(block) == 1 and not is_elif(text, span(statement)) else []
            assert ast.dump(ast.parse(dropped)) == ast.dump(tree)
            block[:] = was


@pytest.mark.parametrize("where", ["before", "after"])
def test_a_statement_put_beside_each(text: str, where: Literal["before", "after"]) -> None:
    span, tree = spans(text), ast.parse(text)
    for block in blocks(tree):
        for index, statement in enumerate(list(block)):
            if is_elif(text, span(statement)) or text.startswith(('"""', "from __future__"), span(statement).start):
                continue
            place = index + (where == "after")
            grown = checked(text, InsertStatements("a.py", span(statement), where, ("1",)))
            block.insert(place, ast.Expr(ast.Constant(1)))
            assert ast.dump(ast.parse(grown)) == ast.dump(tree)
            del block[place]


def test_a_name_imported_and_dropped_again_leaves_the_same_file(text: str) -> None:
    modules = [node.module for node in ast.parse(text).body if isinstance(node, ast.ImportFrom)]
    for module in modules[1:]:
        for name in ("AAA", "Mmm", "zzz"):
            extended = checked(text, AddImport("a.py", module or "", name))
            assert name in extended
            assert checked(extended, DropImport("a.py", name)) == text


def blocks(tree: ast.Module) -> list[list[ast.stmt]]:
    fields = [getattr(node, name, None) for node in ast.walk(tree) for name in ("body", "orelse", "finalbody")]
    return [block for block in fields if isinstance(block, list) and block]


def is_elif(text: str, span: Span) -> bool:
    return text.startswith("elif", span.start)
