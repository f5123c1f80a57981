"""The metadata backends, one a file."""
