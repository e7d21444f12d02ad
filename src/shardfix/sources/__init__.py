"""Find, read and write source files: git, ignores, bytes, atomic writes."""
