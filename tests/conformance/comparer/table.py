"""All cases, in the order in which they are sent: what one changes, those behind it see."""

from typing import Final

from tests.conformance.comparer import (
    admin_cases,
    consumer_group_cases,
    controller_cases,
    group_cases,
    record_cases,
    share_cases,
    topic_cases,
)
from tests.conformance.comparer.case import Case

BROKER_CASES: Final[tuple[Case, ...]] = (
    *topic_cases.CASES,
    *record_cases.CASES,
    *group_cases.CASES,
    *consumer_group_cases.CASES,
    *share_cases.CASES,
    *admin_cases.CASES,
)
CASES: Final[tuple[Case, ...]] = (
    *BROKER_CASES,
    *controller_cases.at_controllers(BROKER_CASES),
    *controller_cases.CASES,
)
