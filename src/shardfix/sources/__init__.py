"""Find, read and write source files."""
