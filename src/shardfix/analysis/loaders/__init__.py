"""The loaders of a project: how each is built, with which sampler, over which dataset."""
