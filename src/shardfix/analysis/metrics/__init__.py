"""What an evaluation loop makes of its batches, and how the parts of several ranks are put together again."""
