"""Run a user's script as it is, and watch what its loaders read."""
