"""What reads a loader: epochs, training and evaluation, and what becomes of the results."""
