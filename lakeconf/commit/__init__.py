"""Transactions: what is collected, how it is committed, and how a lost commit is resolved."""
