"""Messages that kafka-python does not have, in the form in which it reads those that it has."""
