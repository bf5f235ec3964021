"""Exit statuses."""

DONE = 0
PROBLEMS = 1
"""A check found problems."""
FAILED = 2
"""Bad usage or data, or anything else that went wrong."""
