"""The writes of users, one module for each verb; each is a value with a `plan`."""
