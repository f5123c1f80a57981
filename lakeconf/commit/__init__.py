"""Transactions: collecting changes, committing them, and resolving lost commits."""
