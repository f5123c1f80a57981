"""Queries as text: what they refer to, what they may do, and how they can be changed."""
