"""From what was given on the command line to the question and the place: options first, then the extra configuration, then the server."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hicachectl.exits import UsageError
from hicachectl.keys import pools, prompt
from hicachectl.keys.look import Question, of_tokens
from hicachectl.keys.pools import Kind
from hicachectl.keys.presence import DEFAULT_THRESHOLD
from hicachectl.keys.served import Served, served
from hicachectl.keys.shape import Shape
from hicachectl.mooncake.config import StoreConfig
from hicachectl.mooncake.exists import Place, Way
from hicachectl.mooncake.probe import settings
from hicachectl.mooncake.probe.admin import locate
from hicachectl.serving import server

ASSUMED_PAGE_SIZE = 64
NAMED = (
    "sglang",
    "page_size",
    "kind",
    "tp_size",
    "pp_size",
    "tp_lcm_size",
    "dcp_size",
    "cp_size",
    "tag",
    "model_name",
    "format_tag",
    "bigram",
    "extra_key",
    "cache_salt",
)
"""Options that are settings of a `Shape` by the same name."""


@dataclass(frozen=True, slots=True)
class Given:
    """The options as typed; None and empty stand for not given."""

    tokens: str | None = None
    text: str | None = None
    tokenizer: str | None = None
    recording: str | None = None
    request: str | None = None
    decode: tuple[str, ...] = ()
    sglang: str | None = None
    page_size: int | None = None
    kind: Kind | None = None
    tp_size: int | None = None
    pp_size: int | None = None
    tp_lcm_size: int | None = None
    dcp_size: int | None = None
    cp_size: int | None = None
    tag: str | None = None
    model_name: str | None = None
    format_tag: str | None = None
    bigram: bool | None = None
    extra_key: str | None = None
    cache_salt: str | None = None
    pools: tuple[str, ...] = ()
    window_pages: int | None = None
    linker: bool = False
    server: str | None = None
    no_store: bool = False
    master: str | None = None
    admin: str | None = None
    extra_config: str | None = None
    lookup: Way = Way.auto
    timeout: float = 10.0
    threshold: int | None = None
    policy: str | None = None
    why: bool = False

    @property
    def source(self) -> str:
        """Which of the inputs is given; UsageError where it is none, or more than one."""
        recorded = self.request is not None or self.recording is not None
        inputs = {
            "--tokens": self.tokens is not None,
            "--text": self.text is not None,
            "--request": recorded,
            "--decode": bool(self.decode),
        }
        chosen = [name for name, is_given in inputs.items() if is_given]
        if len(chosen) != 1:
            wrong = " and ".join(chosen) or "nothing"
            raise UsageError(
                f"{wrong} given: exactly one of --tokens, --text with --tokenizer, --request and --decode is needed"
            )
        return chosen[0]


def question(given: Given, environment: Mapping[str, str]) -> Question:
    """The question that options, extra configuration and server give together, for tokens or a text."""
    tokens = _tokens(given)
    told = _served(given, environment)
    extra = _extra(given, environment)
    shape = shape_of(given, told, extra)
    windows = dict(told.windows) if told else {}
    if given.window_pages is not None:
        windows |= {use.name: given.window_pages for use in shape.pools if use.name != "mamba"}
    remarks = list(told.remarks) if told else []
    if given.page_size is None and told is None:
        remarks.append(f"a page size of {ASSUMED_PAGE_SIZE} is assumed: --page-size or --server says it")
    if shape.scheme.model_prefix and not shape.model_name:
        remarks.append(
            f"SGLang {shape.sglang} puts the served model name in front of keys, and none is given: --model-name or --server says it"
        )
    if not shape.scheme.namespace_seed and (shape.extra_key is not None or shape.cache_salt):
        remarks.append(
            f"SGLang {shape.sglang} does not put extra_key and cache_salt into page keys: requests with different ones share objects"
        )
    return of_tokens(
        tokens,
        shape,
        threshold=threshold_of(given, told, extra),
        policy=policy_of(given, told),
        windows=windows,
        remarks=tuple(remarks),
    )


def recorded_question(given: Given) -> Question:
    """The question for a recorded request, in the shape of the engine that it was sent to."""
    # Imported here so that nobody else pays for reading recordings.
    from hicachectl.keys.recorded import recorded  # noqa: PLC0415
    from hicachectl.model.world import world  # noqa: PLC0415
    from hicachectl.store import read  # noqa: PLC0415

    if given.request is None:
        raise UsageError("--run needs --request: which of its requests is meant")
    shaped = [name for name in (*NAMED, "pools", "server") if getattr(given, name)]
    if shaped:
        raise UsageError(
            f"--{shaped[0].replace('_', '-')} cannot be given with --request: a recording has page keys of one shape, and another shape needs the tokens"
        )
    found = recorded(world(read([given.recording] if given.recording else ())), given.request)
    return Question(
        found.shape,
        found.layout,
        found.page_keys,
        found.prompt_tokens,
        threshold=found.threshold if given.threshold is None else given.threshold,
        policy=given.policy or found.policy,
        remarks=found.remarks,
    )


def shape_of(given: Given, told: Served | None, extra: StoreConfig | None) -> Shape:
    """The shape: each setting as the option says it, else the extra configuration, else the server, else the default."""
    base: dict[str, Any] = {"page_size": ASSUMED_PAGE_SIZE, "sglang": settings.installed_sglang()}
    base |= told.settings if told else {}
    if extra is not None:
        configured = {"tag": extra.extra_backend_tag.value, "tp_lcm_size": extra.tp_lcm_size.value}
        base |= {name: value for name, value in configured.items() if value is not None}
    base |= {name: getattr(given, name) for name in NAMED if getattr(given, name) is not None}
    if given.pools:
        listed = [name for text in given.pools for name in text.split(",") if name.strip()]
        base["pools"] = tuple(pools.parse(name, base["sglang"]) for name in listed)
    return Shape(**base, linker=given.linker)


def threshold_of(given: Given, told: Served | None, extra: StoreConfig | None) -> int:
    """Tokens from which on the engine fetches."""
    if given.threshold is not None:
        return given.threshold
    if extra is not None and extra.prefetch_threshold.origin != "default":
        return extra.prefetch_threshold.value
    return told.threshold if told else DEFAULT_THRESHOLD


def policy_of(given: Given, told: Served | None) -> str:
    """How long the engine waits for a fetch."""
    return given.policy or (told.policy if told else "timeout")


def place(given: Given, environment: Mapping[str, str]) -> Place:
    """The store, as SGLang would find it, or as the options say."""
    config = settings.read(environment, given.master, given.extra_config)
    chosen = settings.client(config, given.master)
    if given.admin is not None:
        return Place(settings.admin_url(given.admin), chosen, given.timeout, "given")
    found = locate(chosen.master_server_address, settings.admin_port(config, given.master))
    return Place(found.url if found else None, chosen, given.timeout, found.found if found else "")


def _tokens(given: Given) -> Any:
    if given.tokens is not None:
        return prompt.numbers(given.tokens)
    if given.tokenizer is None:
        raise UsageError("--text needs --tokenizer: the model's folder, its tokenizer.json, or its name")
    return prompt.text(given.text or "", given.tokenizer)


def _served(given: Given, environment: Mapping[str, str]) -> Served | None:
    if given.server is None:
        return None
    told = server.ask(given.server, given.timeout, environment.get("SGLANG_API_KEY"))
    return served(told.info, told.model)


def _extra(given: Given, environment: Mapping[str, str]) -> StoreConfig | None:
    """What the extra configuration says of keys; it need not name a store for that."""
    return settings.read(environment, given.master or "", given.extra_config) if given.extra_config else None
