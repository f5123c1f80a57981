"""The storage backends, one a file."""
