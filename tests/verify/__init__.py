"""Verifications of real scripts: each runs the script several times, under the watcher."""
