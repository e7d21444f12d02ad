"""Understand training code: ast to facts to findings."""
