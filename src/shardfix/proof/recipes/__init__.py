"""From source to recipe: the runnable slice of a loader, without any of the code that could not be run."""
