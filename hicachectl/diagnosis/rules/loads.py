"""Loads that differ from what was promised without a loss: nothing to load (L01), and more than promised (G09)."""

from collections.abc import Iterator

from hicachectl.diagnosis.finding import Finding, of_request
from hicachectl.diagnosis.rule import Case, Rule
from hicachectl.model.attempt import reason
from hicachectl.model.take import count, failed
from tracers import vocabulary as v


def judge(case: Case) -> Iterator[Finding]:
    """The load-back of the admission that counts, and whether the tree came to load anything inside it."""
    journey, ask = case.journey, case.journey.load_ask
    if ask is None or failed(ask):
        return
    promised, loaded = count(ask, v.MATCHED_HOST), count(ask, v.LOADED_TOKENS)
    if loaded > promised:
        yield of_request(journey, "G09", args={"loaded": loaded, "promised": promised}, evidence=(ask, journey.attempt.first_prefill))
    elif not loaded and journey.load is None and reason(ask) is None and case.world.certain(journey.attempt.engine):
        # Without a span of the tree's own call it is only known that there was none where no span is missing.
        device = count(journey.admission, v.MATCHED_DEVICE)
        yield of_request(journey, "L01", args={"matched": device, "promised": promised}, evidence=(ask, journey.admission))


RULE = Rule("loads", ("L01", "G09"), (v.LOAD_BACK_ASK, v.LOAD_BACK, v.ADMISSION, v.PREFILL), of_case=judge, needs=(v.LOAD_BACK_ASK,))
