"""What the source says: names, values, calls and where they go, in every file of a project."""
