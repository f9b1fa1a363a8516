"""A short call on the store: does it answer, does it understand this client, what does its master say about itself."""

import uuid
from dataclasses import dataclass

from hicachectl.exits import OperatorError, UnreachableError
from hicachectl.mooncake import master
from hicachectl.mooncake.client import ClientSettings, Session, StoreTimeoutError
from hicachectl.mooncake.probe.admin import Watch, locate
from hicachectl.mooncake.probe.plan import PREFIX
from hicachectl.mooncake.probe.reach import reach
from hicachectl.mooncake.probe.stories import OTHER_RELEASE_SIGN


@dataclass(frozen=True, slots=True)
class Visit:
    """What the store answered; None: not asked, or no answer.

    `setup` and `call` are the codes of a set-up that lends nothing and of one existence check of a key that nobody has: a master of another
    release gives 0 and -900.
    """

    address: str
    problem: str = ""
    """Why there is no connection, empty where there is one."""
    setup: int | None = None
    call: int | None = None
    other_release: bool = False
    transport: str = ""
    trouble: tuple[str, ...] = ()
    admin: str | None = None
    admin_problem: str = ""
    health: master.Health | None = None
    sample: dict[str, int | float] | None = None


def pay(settings: ClientSettings, python: str, admin_port: int | None, timeout: float, *, with_client: bool) -> Visit:
    """Visit the store with the client of PYTHON, or over HTTP alone; lends and puts nothing, asks for one key that nobody has."""
    address = settings.master_server_address
    try:
        watch = Watch(locate(address, admin_port), min(master.DEFAULT_TIMEOUT_S, timeout / 3))
        reach(address, timeout)
    except OperatorError as error:
        return Visit(address, problem=str(error))
    health, sample = watch.health(), watch.sample()
    admin = watch.admin.url if watch.admin is not None else None
    seen = Visit(address, admin=admin, admin_problem=watch.problem, health=health, sample=sample)
    return _with_client(seen, settings, python, timeout) if with_client else seen


def _with_client(seen: Visit, settings: ClientSettings, python: str, timeout: float) -> Visit:
    with Session.open(settings, timeout, python) as session:
        setup = call = None
        problem = ""
        try:
            session.about()
            setup = session.setup().codes[0]
            if setup == 0:
                call = session.is_exist(f"{PREFIX}-{uuid.uuid4().hex[:16]}-doctor")
        except StoreTimeoutError as error:
            problem = f"the store at {seen.address} does not answer as a master: {error}"
            if Watch(None).answers_as_admin(seen.address):
                problem = f"{seen.address} is the master's admin port (HTTP), where the client needs the RPC port"
        except UnreachableError as error:
            problem = str(error)
        return Visit(
            address=seen.address,
            problem=problem,
            setup=setup,
            call=call,
            other_release=OTHER_RELEASE_SIGN in session.log(),
            transport=session.transport(),
            trouble=tuple(session.trouble()),
            admin=seen.admin,
            admin_problem=seen.admin_problem,
            health=seen.health,
            sample=seen.sample,
        )
