import asyncio
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import aiohttp
import pytest
from yarl import URL

from console.fake_console import FakeAuthority, call, may_do_all
from server.auth.fake_issuer import CLIENT, FakeIssuer, running_issuer
from trimtab.client.client import Resource
from trimtab.console.application import Console
from trimtab.console.code_flow import COOKIE, LIFETIME, CodeFlow
from trimtab.errors import Forbidden
from trimtab.local_fleet import LocalFleet, LocalFleetOptions
from trimtab.runtime.declarations import load_declarations
from trimtab.server.auth.id_tokens import IdTokens, OidcClaims
from trimtab.server.auth.oidc_issuer import IssuerRefused, IssuerUnavailable, OidcClient, OidcIssuer
from trimtab.simulate.fleet import FleetPlan


@pytest.fixture
def running(tmp_path: Path) -> Iterator[tuple[FakeIssuer, Path]]:
    with running_issuer(tmp_path) as found:
        yield found


class Clock:
    """The real time, moved on by the test."""

    def __init__(self) -> None:
        self.ahead = timedelta()

    def now(self) -> datetime:
        return datetime.now(UTC) + self.ahead


def client_of(running: tuple[FakeIssuer, Path], clock: Clock, secret: str = "") -> OidcIssuer:
    issuer, ca = running
    return OidcIssuer(OidcClient(CLIENT, secret), IdTokens(OidcClaims(issuer.url, CLIENT), clock.now), ca.read_bytes())


async def follow(issuer: OidcIssuer, location: str) -> dict[str, str]:
    """What the browser brings back from the issuer."""
    async with (
        aiohttp.ClientSession() as session,
        session.get(URL(location, encoded=True), ssl=issuer._tls, allow_redirects=False) as response,
    ):
        return dict(parse_qsl(urlsplit(response.headers["location"]).query))


async def sign_in(flow: CodeFlow, target: str = "/console/") -> tuple[dict[str, str], str]:
    begun = await flow.begin("console.example", target)
    return await follow(flow.issuer, begun.location), begun.cookie


def test_code_is_exchanged_with_the_verifier_that_only_the_console_has(running: tuple[FakeIssuer, Path]) -> None:
    clock = Clock()

    async def scenario() -> None:
        flow = CodeFlow(client_of(running, clock), clock.now)
        begun = await flow.begin("console.example", "/console/moves")
        asked = dict(parse_qsl(urlsplit(begun.location).query))
        assert (asked["code_challenge_method"], asked["response_type"]) == ("S256", "code")
        assert asked["redirect_uri"] == "https://console.example/console/login/callback"
        tokens, target = await flow.finish(await follow(flow.issuer, begun.location), begun.cookie)
        assert target == "/console/moves"
        assert flow.issuer.id_tokens.user(tokens.id_token).name == "oidc:ada"

    asyncio.run(scenario())


def test_sign_in_is_bound_to_its_browser_its_time_and_one_use(running: tuple[FakeIssuer, Path]) -> None:
    clock = Clock()

    async def scenario() -> None:
        flow = CodeFlow(client_of(running, clock), clock.now)
        query, cookie = await sign_in(flow)
        with pytest.raises(Forbidden, match="another browser"):
            await flow.finish(query, "other")
        with pytest.raises(Forbidden, match="too old"):
            await flow.finish(query, cookie)
        query, cookie = await sign_in(flow)
        with pytest.raises(Forbidden, match="another issuer"):
            await flow.finish({**query, "iss": "https://other.example"}, cookie)
        query, cookie = await sign_in(flow)
        with pytest.raises(Forbidden, match="access_denied"):
            await flow.finish({"state": query["state"], "error": "access_denied"}, cookie)
        query, cookie = await sign_in(flow)
        clock.ahead += LIFETIME
        with pytest.raises(Forbidden, match="too old"):
            await flow.finish(query, cookie)

    asyncio.run(scenario())


def test_token_with_the_nonce_of_another_sign_in_is_refused(running: tuple[FakeIssuer, Path]) -> None:
    clock = Clock()

    async def scenario() -> None:
        flow = CodeFlow(client_of(running, clock), clock.now)
        query, cookie = await sign_in(flow)
        running[0].codes[query["code"]]["nonce"] = "other"
        with pytest.raises(Forbidden, match="another sign-in"):
            await flow.finish(query, cookie)

    asyncio.run(scenario())


def test_new_key_of_the_issuer_is_read(running: tuple[FakeIssuer, Path]) -> None:
    clock = Clock()

    async def scenario() -> None:
        flow = CodeFlow(client_of(running, clock), clock.now)
        await flow.issuer.read_keys()
        running[0].new_key()
        query, cookie = await sign_in(flow)
        tokens, _ = await flow.finish(query, cookie)
        assert flow.issuer.id_tokens.user(tokens.id_token).name == "oidc:ada"

    asyncio.run(scenario())


def test_issuer_that_refuses_or_is_gone_is_named(tmp_path: Path, running: tuple[FakeIssuer, Path]) -> None:
    clock = Clock()

    async def scenario() -> None:
        with pytest.raises(IssuerRefused, match="invalid_grant"):
            await client_of(running, clock).refresh("unknown")
        issuer, ca = running
        other = IdTokens(OidcClaims("https://127.0.0.1:1", CLIENT), clock.now)
        with pytest.raises(IssuerUnavailable, match=r"127\.0\.0\.1:1 was not reached: (?!Cannot)"):
            await OidcIssuer(OidcClient(CLIENT), other, ca.read_bytes()).addresses()
        trusts_others = OidcIssuer(OidcClient(CLIENT), IdTokens(OidcClaims(issuer.url, CLIENT), clock.now))
        with pytest.raises(IssuerUnavailable, match="certificate is not trusted"):
            await trusts_others.addresses()
        console = Console(FakeAuthority({}), clock.now, code_flow=CodeFlow(trusts_others, clock.now))
        answer = await call(console, "/login/oidc?target=/console/moves")
        assert answer.code == 502
        assert "certificate is not trusted" in answer.text
        assert 'name="token"' in answer.text
        renamed = IdTokens(OidcClaims(issuer.url + "/", CLIENT), clock.now)
        with pytest.raises(IssuerUnavailable, match="calls itself"):
            await OidcIssuer(OidcClient(CLIENT), renamed, ca.read_bytes()).addresses()

    asyncio.run(scenario())


def test_client_with_a_secret_sends_it(tmp_path: Path) -> None:
    clock = Clock()

    async def scenario(running: tuple[FakeIssuer, Path]) -> None:
        flow = CodeFlow(client_of(running, clock, "s%cret"), clock.now)
        query, cookie = await sign_in(flow)
        running[0].secret = "s%25cret"
        assert (await flow.finish(query, cookie))[0].id_token

    with running_issuer(tmp_path) as running:
        asyncio.run(scenario(running))


class TokenAuthority(FakeAuthority):
    """Knows users by the ID tokens of an issuer."""

    def __init__(self, tokens: IdTokens) -> None:
        super().__init__({"oidc:ada": may_do_all})
        self._tokens = tokens

    async def identify(self, token: str) -> str | None:
        return self._tokens.user(token).name


def test_session_outlives_its_token_while_the_issuer_renews_it(running: tuple[FakeIssuer, Path]) -> None:
    clock, (issuer, _) = Clock(), running
    issuer.lifetime = 90.0
    load_declarations()

    async def scenario() -> None:
        client = client_of(running, clock)
        console = Console(TokenAuthority(client.id_tokens), clock.now, code_flow=CodeFlow(client, clock.now))
        begun = await call(console, "/login/oidc?target=/console/moves")
        assert begun.code == 303
        (cookie,) = begun.cookies
        assert "SameSite=Lax" in cookie
        assert "HttpOnly" in cookie
        assert "Secure" in cookie
        query = urlsplit(begun.headers["location"])
        back = await follow(client, query.geturl())
        answer = await call(console, f"/login/callback?code={back['code']}&state={back['state']}")
        assert answer.code == 403
        begun = await call(console, "/login/oidc?target=/console/moves")
        back = await follow(client, begun.headers["location"])
        value = begun.cookies[0].partition(";")[0].partition("=")[2]
        path = f"/login/callback?code={back['code']}&state={back['state']}"
        answer = await call(console, path, Cookie=f"{COOKIE}={value}")
        assert answer.code == 200
        assert "/console/moves" in answer.text
        session = answer.cookies[0].partition(";")[0].partition("=")[2]
        assert "SameSite=Strict" in answer.cookies[0]
        first = console.sessions.find(session)
        assert first is not None
        assert first.user == "oidc:ada"
        token = first.token
        clock.ahead += timedelta(seconds=60)
        answers = await asyncio.gather(*(call(console, "/", cookie=session) for _ in range(3)))
        assert [one.code for one in answers] == [200, 200, 200]
        assert first.token != token
        issuer.refresh_tokens.clear()
        clock.ahead += timedelta(seconds=90)
        assert (await call(console, "/moves?cause=Drain", cookie=session)).code == 401
        assert console.sessions.find(session) is None
        await console.close()

    asyncio.run(scenario())


ROLES = Resource("rbac.authorization.k8s.io", "v1", "roles", "Role")
ROLE_BINDINGS = Resource("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding")


def read_shop(kind: str) -> dict[str, object]:
    """A role that reads workloads of the namespace default, or its binding to the group of the issuer."""
    metadata = {"name": "readers", "namespace": "default"}
    if kind == "Role":
        rule = {"apiGroups": ["work.karmada.io"], "resources": ["resourcebindings"], "verbs": ["get", "list"]}
        return {"apiVersion": ROLES.api_version, "kind": kind, "metadata": metadata, "rules": [rule]}
    subject = {"kind": "Group", "name": "oidc:shop-readers", "apiGroup": ROLES.group}
    reference = {"kind": "Role", "name": "readers", "apiGroup": ROLES.group}
    return {
        "apiVersion": ROLES.api_version,
        "kind": kind,
        "metadata": metadata,
        "subjects": [subject],
        "roleRef": reference,
    }


@asynccontextmanager
async def fleet_with(issuer: OidcIssuer, directory: Path) -> AsyncIterator[LocalFleet]:
    local = LocalFleet(directory, "127.0.0.1", 0, FleetPlan(), "trimtab", {}, LocalFleetOptions(oidc=issuer))
    await local.open()
    await local.start()
    try:
        yield local
    finally:
        await local.stop()


def test_groups_of_the_token_are_the_groups_of_rbac(tmp_path: Path, running: tuple[FakeIssuer, Path]) -> None:
    clock = Clock()

    async def scenario() -> None:
        issuer = client_of(running, clock)
        async with fleet_with(issuer, tmp_path / "data") as local:
            await local.fleet.client.create(ROLES, read_shop("Role"))
            await local.fleet.client.create(ROLE_BINDINGS, read_shop("RoleBinding"))
            tls = ssl.create_default_context(cadata=local.daemon.authority_certificate.decode())
            flow = CodeFlow(issuer, clock.now)
            query, cookie = await sign_in(flow)
            token = (await flow.finish(query, cookie))[0].id_token
            headers = {"authorization": f"Bearer {token}"}
            async with aiohttp.ClientSession(local.daemon.url, headers=headers) as session:
                path = "/apis/work.karmada.io/v1alpha2{}/resourcebindings"
                codes = []
                for space in ("/namespaces/default", "/namespaces/kube-system", ""):
                    async with session.get(path.format(space), ssl=tls) as response:
                        codes.append(response.status)
                assert codes == [200, 403, 403]
                async with session.get("/console/", ssl=tls, headers={"accept": "application/json"}) as response:
                    assert response.status == 200
                forged = token[:-8] + "AAAAAAAA"
                wrong = {"authorization": f"Bearer {forged}"}
                async with session.get(path.format(""), ssl=tls, headers=wrong) as response:
                    assert response.status == 401

    asyncio.run(scenario())
