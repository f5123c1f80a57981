"""The storage backends, one per file."""
