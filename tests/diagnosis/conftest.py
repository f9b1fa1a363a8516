"""What holds in every story of these tests."""

from collections.abc import Sequence

import pytest

from hicachectl.diagnosis.rule import Case, OfCase
from hicachectl.diagnosis.rules import RULES
from hicachectl.diagnosis.run import Judging
from hicachectl.model.account import account
from hicachectl.model.journey import Journey


@pytest.fixture(autouse=True)
def _no_rule_is_left_out_that_had_something_to_say(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule that is not asked of a request, for want of the spans that it needs, finds nothing when it is asked all the same."""
    asked = Judging._asked

    def checked(self: Judging, journey: Journey) -> Sequence[OfCase]:
        found = asked(self, journey)
        case = Case(journey, account(journey, self.world), self.world)
        for rule in RULES:
            assert rule.of_case is None or rule.of_case in found or not list(rule.of_case(case)), rule.name
        return found

    monkeypatch.setattr(Judging, "_asked", checked)
