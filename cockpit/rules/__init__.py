"""MAY it run: pure functions from facts to findings."""
