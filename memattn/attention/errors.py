"""The error for an option of a mechanism that is out of range."""


class OptionError(ValueError):
    """An option that is out of range; its message is "OPTION: PROBLEM"."""

    def __init__(self, option: str, problem: str):
        super().__init__(option, problem)
        self.option, self.problem = option, problem

    def __str__(self) -> str:
        return f"{self.option}: {self.problem}"
