"""Merges: their clauses, the join of a frame with the table, and the actions that carry out the result."""
