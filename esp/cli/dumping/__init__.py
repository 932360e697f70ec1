"""The contents of a log's files, in lines for people and in values for programs; behind ``esp dump-log``."""
