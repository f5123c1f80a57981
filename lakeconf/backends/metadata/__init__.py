"""The metadata backends."""
