"""A process that is killed, in a test that goes on."""


class Died(BaseException):
    """The process ended here: what catches `Exception` does not catch this."""
