"""What a person can put right before a verification can begin."""


class VerifyProblem(Exception):
    """A verification that cannot begin; the message says what, where and what to do."""
