"""Bind a name that the rewritten code needs, and drop an import that nothing uses any more."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import replace

from shardfix.rewrite.blocks import Statement, Tree
from shardfix.rewrite.edits import AddImport, InsertStatements
from shardfix.rewrite.layout import Layout
from shardfix.rewrite.listing import Item, Listing, drop, put

_HEADER = (ast.Import, ast.ImportFrom, ast.Expr, ast.Assign, ast.AnnAssign, ast.AugAssign, ast.If, ast.Try)


# Dropping


def unused_imports(
    tree: Tree, result: ast.Module, result_layout: Layout, names: Set[str]
) -> list[tuple[Statement, str]]:
    """The imports, as (statement, bound name), that can go because nothing in the result uses the name.

    A name also bound in other ways, or imported under a condition (the other branch is an alternative), stays.
    """
    used = _used(result, result_layout, names)
    found: list[tuple[Statement, str]] = []
    for name in sorted(names - used):
        imports = [s for s in _imports(tree) if name in _bound(s.node)]
        if imports and all(_is_unconditional(statement) for statement in imports):
            found += [(statement, name) for statement in imports]
    return found


def _imports(tree: Tree) -> list[Statement]:
    found = {id(s): s for s in tree.by_span.values() if isinstance(s.node, (ast.Import, ast.ImportFrom))}
    return sorted(found.values(), key=lambda statement: statement.span)


def _bound(node: ast.stmt) -> set[str]:
    assert isinstance(node, (ast.Import, ast.ImportFrom))
    return {alias.asname or alias.name.partition(".")[0] for alias in node.names}


def _is_unconditional(statement: Statement) -> bool:
    owner = statement.block.owner
    while owner is not None:
        if not isinstance(owner.node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            return False
        owner = owner.block.owner
    block_owner = statement.block.owner
    return block_owner is None or not isinstance(block_owner.node, ast.ClassDef)


def _used(module: ast.Module, layout: Layout, names: Set[str]) -> set[str]:
    used: set[str] = set()
    texts: list[str] = []
    for node in ast.walk(module):
        if isinstance(node, ast.Name):
            used.add(node.id)
            continue
        if isinstance(node, (ast.Global, ast.Nonlocal)):
            used.update(node.names)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            texts += _strings(node.returns)
            used.add(node.name)
        elif isinstance(node, ast.ClassDef):
            used.add(node.name)
        elif isinstance(node, (ast.arg, ast.AnnAssign)):
            texts += _strings(node.annotation)
        elif isinstance(node, ast.Call) and _called(node.func) in ("cast", "TypeVar", "NewType", "ForwardRef"):
            texts += [text for arg in node.args for text in _strings(arg)]
        if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr)) and _speaks_of_all(node):
            texts += _strings(node.value)
    texts += [text for span in layout.comments if "type:" in (text := layout.text[span.start : span.end])]
    for text in texts:
        used.update(re.findall(r"\w+", text))
    return used & names


def _called(func: ast.expr) -> str:
    return func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else ""


def _speaks_of_all(node: ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Expr) -> bool:
    if isinstance(node, ast.Expr):
        return (
            isinstance(node.value, ast.Call)
            and isinstance(node.value.func, ast.Attribute)
            and isinstance(node.value.func.value, ast.Name)
            and node.value.func.value.id == "__all__"
        )
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets)


def _strings(node: ast.expr | None) -> list[str]:
    if node is None:
        return []
    return [n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str)]


# Adding


def place_imports(
    tree: Tree, edits: Sequence[AddImport], leaving: Set[int]
) -> tuple[list[tuple[Statement, str]], list[InsertStatements], str]:
    """Where the wanted names are best bound.

    Args:
        edits: what is wanted.
        leaving: ids of the import statements that are removed.

    Returns:
        Names to add to existing ``from`` imports, new import lines, and text for the top of a file without code.
    """
    extended: list[tuple[Statement, str]] = []
    lines: dict[tuple[str, Statement | None], list[str]] = {}
    apart: set[tuple[str, Statement | None]] = set()
    for edit in sorted(edits, key=_rank):
        if _is_bound(tree, edit, leaving):
            continue
        beside = tree.outermost(tree.statement(edit.beside)) if edit.beside else None
        if beside is not None and isinstance(beside.node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            beside = None
        host = _host(tree, edit, beside, leaving) if edit.name else None
        if host is not None:
            if (host, edit.name) not in extended:
                extended.append((host, edit.name))
        else:
            names = lines.setdefault((edit.module, beside), [])
            if edit.apart and beside is not None:
                apart.add((edit.module, beside))
            if edit.name not in names:
                names.append(edit.name)
    inserts: list[tuple[InsertStatements, bool]] = []
    top = ""
    for (module, beside), names in lines.items():
        wanted = [f"import {module}" if not name else "" for name in names if not name]
        joined = sorted((name for name in names if name), key=_isort_key)
        wanted += [f"from {module} import {', '.join(joined)}"] if joined else []
        insert = _new_line(tree, beside, wanted)
        if insert is None:
            top += "".join(line + tree.layout.newline(0) for line in wanted)
        else:
            inserts.append((insert, (module, beside) in apart))
    return extended, _merge_spacing(inserts), top


def _rank(edit: AddImport) -> tuple[bool, bool, str]:
    """torch's names first, as they are asked for, beside the torch imports that are there; then by module."""
    torch = _is_torch(edit.module)
    return edit.apart, not torch, "" if torch else edit.module


def _merge_spacing(inserts: list[tuple[InsertStatements, bool]]) -> list[InsertStatements]:
    """Blank lines that set off new imports stand once around several of them.

    Args:
        inserts: each with whether it is set apart from what is put in before it.
    """
    merged: dict[tuple[object, str], InsertStatements] = {}
    set_apart: set[tuple[object, str]] = set()  # where the block of the project's own modules has begun
    for insert, apart in inserts:
        key = (insert.anchor, insert.where)
        apart = apart and key not in set_apart
        if apart:
            set_apart.add(key)
            insert = replace(insert, lines=("", *insert.lines))
        if key in merged:
            content = [*[""] * apart, *(line for line in insert.lines if line)]
            lines = list(merged[key].lines)
            at = max(index for index, line in enumerate(lines) if line) + 1
            merged[key] = replace(insert, lines=(*lines[:at], *content, *lines[at:]))
        else:
            merged[key] = insert
    return list(merged.values())


def _is_bound(tree: Tree, edit: AddImport, leaving: Set[int]) -> bool:
    for statement in tree.root.statements:
        if id(statement) in leaving:
            continue
        node = statement.node
        if isinstance(node, ast.ImportFrom):
            fits = bool(edit.name) and _module(node) == edit.module
        else:
            fits = not edit.name and isinstance(node, ast.Import)
        wanted = edit.name or edit.module
        if fits and any(alias.name == wanted and alias.asname in (None, wanted) for alias in _aliases(node)):
            return True
    return False


def _aliases(node: ast.stmt) -> list[ast.alias]:
    return node.names if isinstance(node, (ast.Import, ast.ImportFrom)) else []


def _module(node: ast.ImportFrom) -> str:
    return "." * node.level + (node.module or "")


def _host(tree: Tree, edit: AddImport, beside: Statement | None, leaving: Set[int]) -> Statement | None:
    """The module-level ``from`` import to extend."""
    hosts = [
        statement
        for statement in _header(tree)
        if isinstance(statement.node, ast.ImportFrom)
        and _module(statement.node) == edit.module
        and statement.node.names[0].name != "*"
        and id(statement) not in leaving
    ]
    return beside if beside in hosts else hosts[-1] if hosts else None


def _header(tree: Tree) -> Iterator[Statement]:
    """The statements with which a module begins, up to its first definition, loop or block of work."""
    for statement in tree.root.statements:
        if not isinstance(statement.node, _HEADER):
            return
        yield statement


def _new_line(tree: Tree, beside: Statement | None, lines: list[str]) -> InsertStatements | None:
    header = list(_header(tree))
    imports = [s for s in header if isinstance(s.node, (ast.Import, ast.ImportFrom))]
    if beside is None:
        torch = [s for s in imports if any(_is_torch(module) for module in _modules(s.node))]
        leading = []
        for statement in header:
            if statement in imports or _is_docstring(statement):
                leading.append(statement)
            else:
                break
        leading = [statement for statement in leading if statement in imports and not _is_future(statement)]
        beside = torch[-1] if torch else leading[-1] if leading else None
    if beside is not None:
        return _insert(beside, "after", lines)
    first = [s for s in header if _is_docstring(s) or _is_future(s)]
    if first:
        following = tree.layout.line_of(first[-1].span.end) + 1
        is_free = following >= len(tree.layout.starts) or tree.layout.is_blank(following)
        return _insert(first[-1], "after", ["", *lines, *([] if is_free else [""])])
    if not tree.root.statements:
        return None
    start = tree.root.statements[0]
    space = 0 if start in imports else 2 if not isinstance(start.node, _HEADER) else 1
    return _insert(start, "before", [*lines, *[""] * space])


def _insert(anchor: Statement, where: str, lines: list[str]) -> InsertStatements:
    assert where in ("before", "after")
    return InsertStatements("", anchor.span, where, tuple(lines))  # type: ignore[arg-type]


def _modules(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.ImportFrom):
        return [_module(node)]
    return [alias.name for alias in node.names] if isinstance(node, ast.Import) else []


def _is_torch(module: str) -> bool:
    return module.partition(".")[0] == "torch"


def _is_docstring(statement: Statement) -> bool:
    node = statement.node
    is_string = (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    )
    return statement.index == 0 and is_string


def _is_future(statement: Statement) -> bool:
    return isinstance(statement.node, ast.ImportFrom) and statement.node.module == "__future__"


# Changing one statement


def edit_import(text: str, dropped: Set[str], added: Sequence[str], *, newline: str, indent: str) -> str:
    """Take bound names out of an import statement and put names in, sorted if the statement is.

    Raises:
        ValueError: LibCST does not give the statement back byte for byte.
    """
    listing = _read_import(text)
    if listing.code() != text:
        raise ValueError("LibCST does not give this import back byte for byte")
    for index in reversed(range(len(listing.items))):
        words = re.sub(r"#.*", "", listing.items[index].text).split()
        bound = words[-1] if "as" in words else words[0] if listing.head.startswith("from") else words[0].split(".")[0]
        if bound in dropped:
            listing = drop(listing, index, newline=newline, indent=indent)
    for name in added:
        names = [item.name for item in listing.items]
        index = len(names)
        keys: tuple[Callable[[str], tuple[int, str]], ...] = (_isort_key, lambda n: (0, n), lambda n: (0, n.lower()))
        for key in keys:
            if names == sorted(names, key=key):
                index = sum(key(other) < key(name) for other in names)
                break
        listing = put(listing, index, Item(name, name, "", ""), newline=newline, indent=indent)
    return listing.code()


def _isort_key(name: str) -> tuple[int, str]:
    """isort's default order of names: CONSTANTS, Classes, functions."""
    return (0 if name.isupper() and len(name) > 1 else 1 if name[:1].isupper() else 2), name


def _read_import(text: str) -> Listing:
    import libcst

    module = libcst.parse_module(text)
    line = module.body[0]
    assert isinstance(line, libcst.SimpleStatementLine)
    node = line.body[0]
    assert isinstance(node, (libcst.Import, libcst.ImportFrom))
    assert not isinstance(node.names, libcst.ImportStar)
    code = module.code_for_node
    items = []
    for alias in node.names:
        comma, gap = "", ""
        if isinstance(alias.comma, libcst.Comma):
            comma, gap = code(alias.comma.whitespace_before) + ",", code(alias.comma.whitespace_after)
        written = code(alias.with_changes(comma=libcst.MaybeSentinel.DEFAULT))
        items.append(Item(code(alias.name), written, comma, gap))
    lead, tail = "", ""
    if isinstance(node, libcst.ImportFrom):
        if node.lpar is not None:
            lead = code(node.lpar.whitespace_after)
        if node.rpar is not None:
            tail = ")"
            items[-1] = replace(items[-1], gap=items[-1].gap + code(node.rpar.whitespace_before))
    listing = Listing("", lead, tuple(items), tail)
    if not text.endswith(listing.code()):
        raise ValueError("LibCST does not give this import back byte for byte")
    return replace(listing, head=text[: len(text) - len(listing.code())])
