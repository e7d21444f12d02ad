"""Which ranks come to a place of a program, and whether what they hold there is alike and what they wait for."""
