"""Rows of admission and of the prefill batch."""

from tracers import vocabulary as v
from tracers.point import Point, Target
from tracers.points.backend import SCHEDULER
from tracers.read import reuse as read

ADDER = "sglang.srt.managers.schedule_policy:PrefillAdder"
BATCH = "sglang.srt.managers.schedule_batch:ScheduleBatch"
REUSED = ("prefix_reused",)

POINTS: tuple[Point, ...] = (
    Point(
        id="reuse.admission",
        layer="reuse",
        doc="an attempt to admit a request, written when the answer changes",
        targets=(Target(f"{ADDER}.add_one_req", ("self", "req")),),
        span=v.ADMISSION,
        attributes=(v.OUTCOME, v.ADMITTED, v.ADMISSION_RESULT, v.MATCHED_DEVICE, v.MATCHED_HOST, v.BUDGET, v.NEEDED, v.REASON),
        before=read.before_admission,
        after=read.admission,
        rid=read.request,
        carries=True,
        rungs=("loaded_back",),
    ),
    Point(
        id="reuse.prefill",
        layer="reuse",
        doc="the prefix that the prefill batch carries for a request, and the engine's own split",
        targets=(Target(f"{BATCH}.prepare_for_extend", ("self",)),),
        span=v.PREFILL,
        attributes=(
            v.OUTCOME, v.PREFIX_TOKENS, v.EXTEND_TOKENS, v.FIRST_CHUNK, v.BATCH, v.PRODUCER, v.PROMPT_TOKENS, v.CACHED_TOKENS, v.CLAIM_DEVICE,
            v.CLAIM_HOST, v.CLAIM_STORAGE, v.RETRACTED,
        ),
        after=read.prefill,
        many=True,
        rungs=("written", *REUSED),
    ),
    Point(
        id="reuse.forward",
        layer="reuse",
        doc="a prefill batch is handed to the device",
        targets=(Target(f"{SCHEDULER}.run_batch", ("self", "batch")),),
        span=v.FORWARD,
        attributes=(v.OUTCOME, v.BATCH, v.PRODUCER),
        before=read.before_forward,
        after=read.forward,
        rungs=REUSED,
    ),
    Point(
        id="reuse.executed",
        layer="reuse",
        doc="the result of a prefill batch has come back",
        targets=(Target(f"{SCHEDULER}.process_batch_result", ("self", "batch")),),
        span=v.EXECUTED,
        attributes=(v.OUTCOME, v.BATCH),
        before=read.before_executed,
        after=read.executed,
        rungs=REUSED,
    ),
)
