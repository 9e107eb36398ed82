"""Errors that a user can fix; the commands print them in one line, without a traceback."""


class RulerError(Exception):
    """An error that the user can fix; the message says where, what is wrong, and what to do.

    >>> str(RulerError("manifest.json", "cannot be read"))
    'manifest.json: cannot be read'
    """

    exit_code = 1

    def __str__(self) -> str:
        return ": ".join(map(str, self.args))


class Stopped(BaseException):
    """SIGINT or SIGTERM arrived; not an Exception, so that no `except Exception` catches it."""


class UsageError(RulerError):
    """A wrong option, argument or input (exit status 2)."""

    exit_code = 2


class BudgetError(UsageError):
    """A row cannot be this short: even an empty haystack is over the limit.

    Attributes:
        task: name of the task.
        need: tokens that the row needs with an empty haystack, room for the answer included.
        limit: the config's length, in tokens.
    """

    def __init__(self, task: str, need: int, limit: int, message: str = "") -> None:
        self.task = task
        self.need = need
        self.limit = limit
        super().__init__(
            message
            or f"{task}: an empty haystack needs {need} tokens with room for the answer, "
            f"and the limit is {limit}; use a length >= {need}"
        )

    def __reduce__(self) -> tuple[type["BudgetError"], tuple[str, int, int, str]]:
        """Keep the arguments when the error is sent to another process."""
        return type(self), (self.task, self.need, self.limit, str(self))
