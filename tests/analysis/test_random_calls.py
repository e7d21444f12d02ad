"""What draws at random is known by one list: all of random and numpy.random but what seeds, and some of torch."""

from __future__ import annotations

import pytest

from shardfix.analysis.loaders.random_calls import family_of


@pytest.mark.parametrize(
    ("name", "family", "picking"),
    [
        ("random.sample", "random", "random"),
        ("random.gauss", "random", None),
        ("random.seed", None, None),
        ("random.Random", None, None),
        ("random.Random.sample", None, None),
        ("numpy.random.permutation", "numpy", "numpy"),
        ("numpy.random.normal", "numpy", None),
        ("numpy.random.default_rng", None, None),
        ("torch.randperm", "torch", "torch"),
        ("torch.randn", "torch", None),
        ("torch.zeros", None, None),
        ("torch.utils.data.random_split", None, None),
    ],
)
def test_from_whose_generator_a_call_draws(name: str, family: str | None, picking: str | None) -> None:
    assert (family_of({name}), family_of({name}, picks=True)) == (family, picking)
