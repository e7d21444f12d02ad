"""Prove that an evaluation gives the same metric on several ranks as in one process."""
