"""Moves whole lakes: their catalogs, as tables with types, and their files."""
