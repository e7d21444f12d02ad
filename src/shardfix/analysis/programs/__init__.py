"""Who runs a loader: programs, the frameworks that own what they run, ranks and groups."""
