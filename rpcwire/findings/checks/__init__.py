"""The checks, one module a finding: an `ID`, and `find(facts)` that gives it or None.

The module's docstring says what it looks for and why that matters; docs/findings/<ID>.md says the
same to a user, with how to confirm it.
"""
