"""Tests of the index: what it says of small projects, and that it says it in time."""
