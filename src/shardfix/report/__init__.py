"""Show results: text, JSON."""
