"""The metadata backends, one per file."""
