"""Rewrite PyTorch training code so that every process reads its own share of the data, and prove it."""

__version__ = "0.1.0"
