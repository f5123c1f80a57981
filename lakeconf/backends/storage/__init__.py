"""The storage backends."""
