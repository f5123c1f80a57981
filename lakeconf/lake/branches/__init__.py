"""Branches of lakes: they are made and dropped, and written for the first time."""
