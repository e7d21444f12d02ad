"""Apply edits to source text, statement by statement."""
