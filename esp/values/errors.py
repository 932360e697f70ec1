"""Errors of schemas and of values."""


class SchemaError(ValueError):
    """A schema that cannot be used; the text is the fault and the remedy."""


class MissingPackageError(ImportError):
    """A package that is needed for this schema is not installed; the text says which, where, and what to do."""
