"""What stands in the files of a log, in lines for people and in values for programs; behind ``esp dump-log``."""
