"""What is done about the findings: which loops are migrated whole, which not and why, and the fate of every site."""

from ampify.plan.decision import group_of, make_plan

__all__ = ["group_of", "make_plan"]
