"""All that the checks look at, collected once: a command line or a running server, its Python, its configuration, the machine, the store."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from hicachectl.checks import arguments
from hicachectl.checks.arguments import NOTHING_GIVEN, Arguments
from hicachectl.checks.inside import Inside, Parsed
from hicachectl.checks.inside import look as look_inside
from hicachectl.checks.inside import parse as parse_inside
from hicachectl.checks.machine import Machine
from hicachectl.checks.machine import look as look_at_machine
from hicachectl.checks.visit import Visit, pay
from hicachectl.exits import OperatorError, one_line
from hicachectl.mooncake import config as store_config
from hicachectl.mooncake.probe import processes
from hicachectl.mooncake.probe.settings import ASSUMED_SGLANG, admin_port, client
from hicachectl.recorder import interpreter
from hicachectl.release import Release
from hicachectl.serving import server

API_KEY = "SGLANG_API_KEY"


@dataclass(frozen=True, slots=True)
class Scene:
    """What the checks see. `words` None: no engine's command line is known, and the arguments are defaults."""

    environment: Mapping[str, str]
    inside: Inside
    machine: Machine
    words: tuple[str, ...] | None = None
    arguments: Arguments = NOTHING_GIVEN
    parsed: Parsed | None = None
    """What SGLang's own parser said; None where it was not asked."""
    server: str | None = None
    server_release: str | None = None
    config: store_config.StoreConfig | None = None
    config_problem: str = ""
    unconfigured: bool = False
    visit: Visit | None = None
    remarks: tuple[str, ...] = ()

    @property
    def sglang(self) -> str:
        """The release whose rules count: the server's, the Python's, or the one that is assumed."""
        return release_of(self.server_release, self.inside)

    @property
    def wants_mooncake(self) -> bool:
        """Whether the checks of the store matter: an engine with this backend, or no engine named at all."""
        return self.arguments.uses_mooncake or (self.words is None and self.server is None)

    @property
    def engine_known(self) -> bool:
        """Whether an engine's arguments are known."""
        return self.words is not None or self.server is not None


@dataclass(frozen=True, slots=True)
class Subject:
    """Whose scene it is: the Python, its environment, and what is known of the engine."""

    python: str
    environment: Mapping[str, str]
    words: tuple[str, ...] | None = None
    arguments: Arguments = NOTHING_GIVEN
    server: str | None = None
    server_release: str | None = None
    remarks: tuple[str, ...] = ()


def of_command(command: Sequence[str], environment: Mapping[str, str], python: str) -> Subject:
    """The engine that COMMAND would start; assignments in front of it count as its environment, as a shell reads them."""
    rest = list(command)
    changed = dict(environment)
    while rest and "=" in rest[0] and rest[0].partition("=")[0].isidentifier():
        name, _, value = rest.pop(0).partition("=")
        changed[name] = value
    found = interpreter.of(rest, changed) if rest else interpreter.Interpreter(python, (), changed)
    remarks = []
    if found is None:
        remarks.append(f"it cannot be told which Python '{one_line(rest[0])}' uses: {python} was asked instead")
    words = arguments.words_of(rest) if rest else None
    if rest and words is None:
        remarks.append(
            "the command is not `python -m sglang.launch_server` or `sglang serve`: the engine's own arguments are unknown"
        )
    return Subject(
        python=found.path if found is not None else python,
        environment=found.env if found is not None else changed,
        words=tuple(words) if words is not None else None,
        arguments=arguments.parse(words) if words is not None else NOTHING_GIVEN,
        remarks=tuple(remarks),
    )


def of_server(url: str, environment: Mapping[str, str], python: str) -> Subject:
    """The server at URL; where it runs on this machine, its own environment and Python are looked at, else these of ours."""
    answered = server.ask(url, api_key=environment.get(API_KEY))
    answer, address = answered.info, answered.url.partition("://")[2].partition("/")[0]
    process = processes.listener(address)
    theirs = processes.environment_of(process) if process is not None else {}
    program = processes.interpreter_of(process) if process is not None else None
    remark = (
        ""
        if theirs
        else "the server's environment cannot be seen from here: this shell's variables and packages were looked at instead"
    )
    release = answer.get("version")
    return Subject(
        python=program if program is not None and theirs else python,
        environment=theirs or environment,
        arguments=arguments.told(answer, arguments.SERVER),
        server=url,
        server_release=release if isinstance(release, str) else None,
        remarks=(remark,) if remark else (),
    )


def collect(subject: Subject, *, ask_parser: bool, timeout: float) -> Scene:
    """Look at everything; UnreachableError where the Python cannot be run, a refused configuration is a fact for the checks."""
    found = look_inside(subject.python, subject.environment)
    given, parsed = subject.arguments, None
    if subject.words is not None and ask_parser and found.sglang is not None:
        parsed = parse_inside(subject.python, subject.environment, subject.words)
        if parsed.values is not None:
            given = arguments.told(parsed.values, arguments.ENGINE, given)
    scene = Scene(
        environment=subject.environment,
        inside=found,
        machine=look_at_machine(),
        words=subject.words,
        arguments=given,
        parsed=parsed,
        server=subject.server,
        server_release=subject.server_release,
        remarks=subject.remarks,
    )
    return _with_store(scene, timeout)


def _with_store(scene: Scene, timeout: float) -> Scene:
    if not scene.wants_mooncake:
        return scene
    extra = scene.arguments["hicache_storage_backend_extra_config"]
    try:
        config = store_config.read(scene.environment, extra, scene.sglang)
        chosen = client(config) if config.master_server_address.value else None
    except store_config.NotConfiguredError as error:
        return replace(scene, config_problem=str(error), unconfigured=True)
    except OperatorError as error:
        return replace(scene, config_problem=str(error))
    seen = None
    if chosen is not None:
        with_client = not scene.inside.mooncake_error
        seen = pay(chosen, scene.inside.python, admin_port(config), timeout, with_client=with_client)
    return replace(scene, config=config, visit=seen)


def release_of(told: str | None, found: Inside) -> str:
    """The first of what the server says, what its Python has, and the assumed release that reads as a release number."""
    for text in (told, found.sglang):
        if text:
            try:
                return Release.of(text).text
            except ValueError:
                continue
    return ASSUMED_SGLANG
