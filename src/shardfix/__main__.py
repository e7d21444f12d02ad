"""Run the command line as `python -m shardfix`."""

from shardfix.cli import main

if __name__ == "__main__":
    main(prog_name="shardfix")
