"""Finds the files that can match a predicate, by statistics and partition values."""
