"""What a model is: its declaration, its SQL or function, its definition, and its tests."""
