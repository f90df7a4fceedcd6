"""The report of a verification as one HTML page; nothing in it asks the network, and no script runs."""
