"""Run the engine over many projects."""
