"""Kafka's tools, told of the node under test."""

from esp.testing.kafka_tools import KafkaTools


class JavaTools:
    """Runs Kafka's tools and judges how they end.

    Args:
        tools: the tools.
        bootstrap: where the node is found.
    """

    def __init__(self, tools: KafkaTools, bootstrap: str) -> None:
        self._tools = tools
        self._server = ("--bootstrap-server", bootstrap)

    def __call__(self, tool: str, *arguments: str, stdin: str = "") -> str:
        """Run a tool and return what it printed; neither an error nor a warning may be among it."""
        done = self._tools.run(tool, *self._server, *arguments, stdin=stdin)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "WARN" not in done.stderr, done.stderr
        assert "ERROR" not in done.stderr, done.stderr
        return done.stdout

    def said(self, tool: str, *arguments: str) -> str:
        """Run a tool and return all that it said, however it ended."""
        done = self._tools.run(tool, *self._server, *arguments)
        return done.stdout + done.stderr

    def refused(self, tool: str, *arguments: str) -> str:
        """Run a tool that must fail and return what it said."""
        done = self._tools.run(tool, *self._server, *arguments)
        assert done.returncode != 0, done.stdout + done.stderr
        return done.stdout + done.stderr
