import logging

import pytest

from esp.broker.configs.logger_levels import change_logger_levels, logger_levels, validate_logger_changes
from esp.controller.configs import ConfigOperation, Operation
from esp.model.errors import ApiError, ErrorCode

NAME = "esp.test.levels"


@pytest.fixture
def logger():
    made = logging.getLogger(NAME)
    yield made
    made.setLevel(logging.NOTSET)


def change(level, operation=Operation.SET, name=NAME):
    return [ConfigOperation(name, operation, level)]


@pytest.mark.parametrize(
    ("word", "level"),
    [
        ("TRACE", 5),
        ("DEBUG", logging.DEBUG),
        ("INFO", logging.INFO),
        ("WARN", logging.WARNING),
        ("ERROR", logging.ERROR),
        ("FATAL", logging.CRITICAL),
    ],
)
def test_a_level_is_set_and_told_by_kafka_s_word(logger, word, level):
    change_logger_levels(change(word))
    assert logger.level == level
    assert logger_levels()[NAME] == word


def test_a_logger_without_a_level_has_that_above_it(logger):
    change_logger_levels(change("FATAL"))
    change_logger_levels(change(None, Operation.DELETE))
    assert logger.level == logging.NOTSET
    assert logger_levels()[NAME] == logger_levels()["root"]


@pytest.mark.parametrize(("level", "word"), [(1, "TRACE"), (7, "TRACE"), (15, "DEBUG"), (99, "FATAL")])
def test_a_level_between_the_words_has_the_coarser_one(logger, level, word):
    logger.setLevel(level)
    assert logger_levels()[NAME] == word


@pytest.mark.parametrize(
    ("operations", "code", "message"),
    [
        (
            change("LOUD", name="root"),
            ErrorCode.invalid_config,
            (
                "Cannot set the log level of root to LOUD as it is not a supported log level. Valid log levels are DEBUG, ERROR, "
                "FATAL, INFO, TRACE, WARN"
            ),
        ),
        (change("INFO", name="no.such"), ErrorCode.invalid_config, "Logger no.such does not exist!"),
        (
            change(None, Operation.DELETE, "root"),
            ErrorCode.invalid_request,
            "Removing the log level of the root logger is not allowed",
        ),
        (
            change("INFO", Operation.APPEND, "root"),
            ErrorCode.invalid_request,
            "APPEND operation is not allowed for the BROKER_LOGGER resource",
        ),
    ],
)
def test_what_cannot_be_is_refused_in_kafka_s_words(operations, code, message):
    with pytest.raises(ApiError) as caught:
        validate_logger_changes(operations)
    assert (caught.value.code, caught.value.message) == (code, message)
