"""One file a codemod: reading this folder tells what shardfix changes."""
