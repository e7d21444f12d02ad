"""What objects hold and keep of what they are given, and what changes them in place."""
