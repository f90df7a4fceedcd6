"""What is done about the findings: which loops are migrated whole, which not and why, and the fate of every site."""
