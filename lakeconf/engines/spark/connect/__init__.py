"""Spark Connect: public calls only, for sessions without a JVM."""
