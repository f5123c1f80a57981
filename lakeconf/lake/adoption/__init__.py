"""Registers existing files as rows of a table, without copying them; see `Lake.adopt`."""
