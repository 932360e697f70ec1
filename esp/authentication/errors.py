"""The end of an exchange that did not authenticate the other side."""


class AuthenticationError(Exception):
    """The other side is not authenticated.

    Args:
        reason: the fault, for the log of this side; it quotes no password, proof, salt or token.
        message: the text for the other side. Empty: it learns no more than that its credentials are invalid.
    """

    def __init__(self, reason: str, message: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.message = message
