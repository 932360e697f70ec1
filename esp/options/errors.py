"""Errors of the data source: one line each, which names the option and its value, and says what to do."""


class OptionError(ValueError):
    """An option cannot be used.

    Args:
        name: the option.
        value: its value; None if it is missing or secret.
        problem: the fault and the remedy.
    """

    def __init__(self, name: str, value: object, problem: str) -> None:
        super().__init__(f"option {name}={value}: {problem}" if value is not None else f"option {name}: {problem}")
        self.name = name
        self.value = value
        self.problem = problem
