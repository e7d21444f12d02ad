"""The guard for a project's own tests: a loader is built in several processes, and each must read its own share.

    from shardfix.pytest_plugin import assert_sharded

    def test_training_data():
        assert_sharded(make_loader, batch_size=8)

pytest loads this module at its start, so torch is imported only when a loader is checked.
"""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest

if TYPE_CHECKING:
    from shardfix.proof.model import Proof

Role = Literal["train", "eval"]
Padding = Literal["allowed", "none"]


def assert_sharded(
    factory: Callable[..., Any] | str,
    *args: Any,
    world_size: int = 2,
    epochs: int = 3,
    set_epoch: bool | Callable[[Any, int], None] = True,
    role: Role | None = None,
    owner: Literal["accelerate"] | None = None,
    padding: Padding = "allowed",
    replicas: int | None = None,
    timeout: float = 60,
    **kwargs: Any,
) -> Proof:
    """Assert that the loaders which a factory returns give each process its own share of the data exactly once.

    The factory is called in ``world_size`` processes that form a gloo group on the CPU, in one more (which exercises
    padding), and in one process. They are forked from this one, so what is made before the call is the same in all of
    them: make datasets, splits, samplers and the Accelerator inside the factory. A loader over a map-style dataset is
    read by index, so no sample is fetched; a stream is read.

    Args:
        factory: any function, closure or lambda; or ``"pkg.mod:function"``, which each process imports anew from the
            project that the calling file belongs to.
        args: handed to the factory, as ``kwargs`` are.
        world_size: the number of processes, 2 or more.
        epochs: how often each loader is read.
        set_epoch: True tells each loader the epoch as a training loop does (``loader.set_epoch``,
            ``loader.sampler.set_epoch``), False never does; a function is called with the factory's result and the
            epoch before each.
        role: ``"eval"`` also asks for order, ``"train"`` for a shuffle that differs from epoch to epoch if it shuffles.
        owner: ``"accelerate"`` if the program hands the factory's loaders to ``accelerator.prepare()`` later.
        padding: ``"none"`` fails where samples are repeated to make the shares equal.
        replicas: the number of data-parallel ranks, where that is not ``world_size``.
        timeout: in seconds; a factory that hangs fails with the place where each rank stood.

    Returns:
        The proof; of the first loader, where the factory returns several.

    Raises:
        AssertionError: a loader is refuted or can't be proven; the message has the cause, the first offending indices
            and the shard map.
        RuntimeError: the processes can't be started here: no ``os.fork``, no torch, or this process is in a group.
    """
    __tracebackhide__ = True
    proofs = _proofs(
        functools.partial(factory, *args, **kwargs) if not isinstance(factory, str) else factory,
        args=args,
        kwargs=kwargs,
        name=_name_of(factory),
        beside=sys._getframe(1).f_code.co_filename,
        world_size=world_size,
        epochs=epochs,
        set_epoch=set_epoch,
        role=role,
        owner=owner,
        padding=padding,
        replicas=replicas,
        timeout=timeout,
    )
    failing = [proof for proof in proofs if proof.verdict != "proven"]
    if failing:
        raise AssertionError(message(failing) + _drawn(failing))
    return proofs[0]


def _proofs(factory: Any, *, args: Any, kwargs: Any, name: str, beside: str, **how: Any) -> Sequence[Proof]:
    """Run the factory and judge its loaders. The assertion's options are in ``how``."""
    __tracebackhide__ = True
    if how["world_size"] < 2:
        raise ValueError(f"world_size is {how['world_size']}; it takes two processes or more to share data")
    if how["padding"] not in ("allowed", "none"):
        raise ValueError(f'padding is {how["padding"]!r}; it must be "allowed" or "none"')
    from shardfix.proof.running.factory import Asked, FactoryError, prove_callable
    from shardfix.proof.running.launch import VerifierError

    asked = Asked(
        nproc=how["world_size"],
        epochs=how["epochs"],
        set_epoch=how["set_epoch"],
        role=how["role"] or "unknown",
        owner=how["owner"] or "",
        replicas=how["replicas"] or 0,
        padding_allowed=how["padding"] == "allowed",
        timeout=how["timeout"],
        patience=max(2.0, min(15.0, how["timeout"] / 4)),
    )
    if isinstance(factory, str):
        factory = functools.partial(_imported, factory, _project_of(beside), args, kwargs)
    try:
        return prove_callable(factory, name, asked)
    except FactoryError as error:
        raise ValueError(str(error)) from None
    except VerifierError as error:
        raise RuntimeError(str(error)) from None


def _imported(target: str, root: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """In a rank: import the factory's module anew, with the project's root importable, and call it."""
    from shardfix.proof.running.calling import found

    sys.path.insert(0, root)
    package = target.partition(":")[0].partition(".")[0]
    for name in [name for name in sys.modules if name == package or name.startswith(package + ".")]:
        del sys.modules[name]
    return found(target)(*args, **kwargs)


def _project_of(file: str) -> str:
    """The root of the project that a file belongs to: the nearest folder with a pyproject.toml or .git."""
    here = Path(file).resolve().parent
    for folder in (here, *here.parents):
        if (folder / "pyproject.toml").exists() or (folder / ".git").exists():
            return str(folder)
    return str(here)


def _name_of(factory: Any) -> str:
    if isinstance(factory, str):
        return factory
    while isinstance(factory, functools.partial):
        factory = factory.func
    return str(getattr(factory, "__qualname__", type(factory).__qualname__))


def message(proofs: Sequence[Proof], width: int = 100) -> str:
    """What a failing test shows of its loaders: verdict, cause, what to do, who read what."""
    from shardfix.proof.judging.causes import CAUSES
    from shardfix.proof.shardmap import draw_proof

    blocks = []
    for proof in proofs:
        known = CAUSES.get(proof.cause)
        head = f"{proof.site} is {proof.verdict}" + (f": {proof.cause}" if proof.cause else "")
        lines = [head, *(f"  {reason}" for reason in proof.reasons)]
        if known is not None:
            lines += [f"  {known.means}", f"  to do: {known.remedy}"]
        lines += [f"  {stand_in.expression}: {stand_in.value}" for stand_in in proof.stand_ins]
        drawn = draw_proof(proof, width=width).rstrip()
        blocks.append("\n".join([*lines, *(f"  {line}" for line in drawn.splitlines())]))
    return "\n\n".join(blocks)


def _drawn(proofs: Sequence[Proof]) -> str:
    """Draw the loaders of a failing test where the session was asked to; the line that says where."""
    from shardfix.proof.sheet import pictures_of, sheet_svg

    pictures = pictures_of(proofs)
    if _folder is None or not pictures:
        return ""
    from shardfix.cli.output import OutputError, write_file

    test = os.environ.get("PYTEST_CURRENT_TEST", proofs[0].site).rpartition(" (")[0] or proofs[0].site
    file = _folder / (re.sub(r"[^\w.-]+", "_", test)[-150:].strip("_") + ".svg")
    try:
        _folder.mkdir(parents=True, exist_ok=True)
        write_file(sheet_svg(pictures).encode() + b"\n", str(file), "the picture")
    except (OSError, OutputError) as error:
        return f"\n\nno picture: {error}"
    return f"\n\npicture: {file}"


# --- for pytest ---

_OPTION = "--sharding-pictures"
_folder: Path | None = None  # where this session draws what fails


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("shardfix").addoption(
        _OPTION,
        metavar="DIR",
        help="Draw who reads what of each loader that fails assert_sharded, as an SVG file a test in this folder.",
    )


def pytest_configure(config: pytest.Config) -> None:
    global _folder
    given = config.getoption(_OPTION)
    _folder = Path(given).absolute() if given else None
    config.addinivalue_line(
        "markers",
        "sharded(**options): the test returns a loader, which is built in several processes and must give each its "
        "own share of the data; beside the fixture `sharded`, its options (shardfix.pytest_plugin.assert_sharded).",
    )


@pytest.fixture
def sharded(request: pytest.FixtureRequest) -> Callable[..., Proof]:
    """``assert_sharded`` with the options of the test's ``@pytest.mark.sharded(..)``."""
    return functools.partial(assert_sharded, **_options(request.node))


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is marked ``sharded`` as the factory of its loader, in several processes."""
    if pyfuncitem.get_closest_marker("sharded") is None or "sharded" in pyfuncitem.fixturenames:
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    test, root = pyfuncitem.obj, _project_of(str(pyfuncitem.path))

    @functools.wraps(test)
    def factory() -> Any:
        sys.path.append(root)  # the project's modules, for what the test imports itself
        return test(**arguments)

    failure = ""
    try:
        assert_sharded(factory, **_options(pyfuncitem))
    except AssertionError as error:
        failure = str(error)
    if failure:  # outside of the handler, so that pytest shows no frames of this tool
        file, line, _ = pyfuncitem.location
        pytest.fail(f"{file}:{(line or 0) + 1}: {failure}", pytrace=False)
    return True


def _options(item: pytest.Item) -> dict[str, Any]:
    """The options of all the item's markers; the nearest one wins."""
    options: dict[str, Any] = {}
    for mark in reversed(list(item.iter_markers("sharded"))):
        options.update(mark.kwargs)
    return options
