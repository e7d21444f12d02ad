"""What goes into the user's own Python to see what its loaders read; the folder that is put on its path.

``shardfix_observe`` needs torch only and is imported by that name there, never as a part of shardfix.
"""
