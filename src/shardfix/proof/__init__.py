"""Run rewritten loaders in several gloo processes and judge what each rank read."""
