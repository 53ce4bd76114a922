"""The one error of ours: input that a person has to mend."""


class InputError(ValueError):
    """What was given cannot be used; the message says what is wrong, where, and what to do instead.

    The command line prints the message alone and exits with 2; every other exception is a defect of calmix.
    """
